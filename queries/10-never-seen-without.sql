-- question: What is never seen without something else in the same clip?
-- sample:   Pairs from the album.
-- expect:   The cereal box never without the toy robot, nor the robot without the box.
WITH seen AS (SELECT DISTINCT entity, video FROM moments)
SELECT a.entity, b.entity AS never_without, count(*) AS clips
FROM seen AS a JOIN seen AS b ON a.video = b.video AND a.entity <> b.entity
GROUP BY a.entity, b.entity
HAVING count(*) = (SELECT count(*) FROM seen WHERE seen.entity = a.entity)
ORDER BY a.entity, never_without;
