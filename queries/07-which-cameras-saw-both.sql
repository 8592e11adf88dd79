-- question: Which cameras saw both, at whatever time?
-- sample:   The courier and the lady with the dotted umbrella.
-- expect:   gate, walk and yard.
SELECT v.camera, list_sort(list(DISTINCT s.video)) AS clips
FROM sightings AS s JOIN videos AS v USING (video)
WHERE s.entity IN ('courier', 'dotted-umbrella')
GROUP BY v.camera
HAVING count(DISTINCT s.entity) = 2
ORDER BY v.camera;
