-- question: When was it seen first, and when last, at each camera?
-- sample:   Everything in the album. Clips without a wall-clock time count in the order of their names; seconds
--           are those of the clip.
-- expect:   The dotted umbrella at three cameras, the blue van at two (gate, road).
SELECT m.entity, v.camera,
       arg_min(m.video, (m.video, m.start_time)) AS first_clip,
       round(min_by(m.start_time, (m.video, m.start_time)), 1) AS first_seen,
       arg_max(m.video, (m.video, m.end_time)) AS last_clip,
       round(max_by(m.end_time, (m.video, m.end_time)), 1) AS last_seen
FROM moments AS m JOIN videos AS v USING (video)
GROUP BY m.entity, v.camera
ORDER BY m.entity, v.camera;
