-- question: Which clips show nothing from the album?
-- sample:   All clips.
-- expect:   gate/noon (only look-alikes) and road/night (nothing at all).
SELECT v.video, v.camera, round(v.duration, 1) AS seconds
FROM videos AS v ANTI JOIN moments AS m ON v.video = m.video
ORDER BY v.video;
