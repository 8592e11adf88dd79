-- question: What entered the zone after something else had left it?
-- sample:   What comes onto the driveway of the gate camera after the blue van has left it.
-- expect:   gate/morning: the courier. gate/evening: the red hatchback.
SELECT video, entity, round(start_time, 1) AS seen_from, round(end_time, 1) AS left_at
FROM (SELECT moments WHERE (entity = 'blue-van' AND inside('driveway')) BEFORE (entity <> 'blue-van' AND inside('driveway')))
WHERE entity <> 'blue-van'
ORDER BY video, seen_from;
