-- question: Where was it during the day, one place after the other?
-- sample:   The cereal box, over all cameras, in order of the wall clock.
-- expect:   Through the shop at 10:30, over the counter at 16:20, twice.
SELECT v.camera, strftime(m.start_clock, '%H:%M') AS came, strftime(m.end_clock, '%H:%M') AS went
FROM moments m JOIN videos v USING (video)
WHERE m.entity = 'cereal-box'
ORDER BY m.start_clock;
