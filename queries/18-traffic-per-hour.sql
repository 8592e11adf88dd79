-- question: How much traffic is there in each hour of the day?
-- sample:   The hours in which anything from the album passed the gate, and what it was.
-- expect:   7 and 17 o'clock; gate/noon shows nobody from the album.
SELECT date_trunc('hour', s.start_clock) AS hour, count(DISTINCT s.entity) AS entities,
       list(DISTINCT s.entity ORDER BY s.entity) AS who
FROM sightings s JOIN videos v USING (video)
WHERE v.camera = 'gate' AND s.start_clock >= TIMESTAMP '2026-03-02'
GROUP BY ALL
ORDER BY hour;
