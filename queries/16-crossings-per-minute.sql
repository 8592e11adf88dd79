-- question: How many crossed the line per minute, and which way?
-- sample:   Vehicles over the middle of the road camera; needs no album. A vehicle is followed in parts, too, so
--           crossings in one direction less than a second apart are one; people are smaller, shadows larger.
-- expect:   road/noon: 4 to the right, 3 to the left; nobody on road/night.
WITH crossed AS (
  SELECT video, time, 'to the right' AS direction
  FROM (SELECT frames WHERE crosses('middle', 'in') AND area BETWEEN 5000 AND 60000)
  UNION ALL
  SELECT video, time, 'to the left'
  FROM (SELECT frames WHERE crosses('middle', 'out') AND area BETWEEN 5000 AND 60000)
), apart AS (
  SELECT *, coalesce(time - lag(time) OVER (PARTITION BY video, direction ORDER BY time) > 1, true) AS another
  FROM crossed
)
SELECT video, CAST(floor(time / 60) AS INTEGER) AS minute, direction, count(*) FILTER (another) AS vehicles
FROM apart
GROUP BY ALL
ORDER BY ALL;
