-- question: Where is most going on?
-- sample:   Clips ranked by tracks per minute, with how many things from the album each shows.
-- expect:   road/night last, with nothing.
SELECT v.video, v.camera, count(DISTINCT t.track_id) AS tracks,
       round(60 * count(DISTINCT t.track_id) / v.duration, 1) AS tracks_per_minute,
       count(DISTINCT s.entity) AS entities
FROM videos AS v
LEFT JOIN tracks AS t USING (video)
LEFT JOIN sightings AS s USING (video)
GROUP BY v.video, v.camera, v.duration
ORDER BY tracks_per_minute DESC, v.video;
