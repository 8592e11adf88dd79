-- question: Who was there between 12:00 and 12:05, on any camera?
-- sample:   Everything from the album that any camera saw in those minutes by its own clock.
-- expect:   At the road the red hatchback twice and the blue van; nobody from the album at the gate.
SELECT v.camera, s.entity, count(*) AS moments
FROM (SELECT moments WHERE time BETWEEN '12:00' AND '12:05') s JOIN videos v USING (video)
GROUP BY ALL
ORDER BY v.camera, s.entity;
