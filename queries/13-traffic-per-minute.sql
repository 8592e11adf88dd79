-- question: How much traffic is there, and when?
-- sample:   New tracks in every five seconds of the road camera, whatever they are; needs no album.
-- expect:   Several in every slot of road/noon, none on road/night.
SELECT video, CAST(floor(start_time / 5) * 5 AS INTEGER) AS from_second, count(*) AS tracks,
       12 * count(*) AS per_minute
FROM tracks
WHERE video LIKE 'road/%'
GROUP BY ALL
ORDER BY video, from_second;
