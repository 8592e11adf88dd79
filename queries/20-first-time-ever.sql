-- question: When and where was it seen for the first time ever?
-- sample:   Everything in the album, over all cameras, by wall-clock time; clips without one do not count.
-- expect:   The blue van, the courier and the umbrella at gate/morning, the cereal box and the robot at
--           walk/shop, the red hatchback at road/noon, the striped cat at walk/park.
SELECT m.entity, date_trunc('minute', min(m.start_clock)) AS first_minute,
       arg_min(v.camera, m.start_clock) AS first_camera, arg_min(m.video, m.start_clock) AS first_clip
FROM moments AS m JOIN videos AS v USING (video)
WHERE m.start_clock IS NOT NULL
GROUP BY m.entity
ORDER BY first_minute, m.entity;
