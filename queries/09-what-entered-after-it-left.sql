-- question: What came next after it had left?
-- sample:   The first entity to enter after the blue van, in each clip, and how many seconds later.
-- expect:   gate/morning: the courier; gate/evening: the striped cat; road/noon: the red hatchback.
SELECT a.video, round(a.end_time, 1) AS van_left, b.entity AS next, round(b.start_time - a.end_time, 1) AS seconds_later
FROM moments AS a JOIN moments AS b ON a.video = b.video AND b.start_time >= a.end_time
WHERE a.entity = 'blue-van' AND b.entity <> 'blue-van'
QUALIFY row_number() OVER (PARTITION BY a.video, a.start_time ORDER BY b.start_time) = 1
ORDER BY a.video, van_left;
