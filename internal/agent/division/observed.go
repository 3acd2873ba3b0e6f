package division

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Label is on the Leases of a division, with its name.
const Label = divisionLabel

// Observed returns how many replicas renew their Lease, for each namespace with a division.
// It compares times of the Leases with the clock of the caller: it is for people, and no
// replica may act on it.
func Observed(leases []coordinationv1.Lease, now time.Time) map[string]int {
	live := map[string]int{}
	for i := range leases {
		spec := &leases[i].Spec
		_, isTable := leases[i].Annotations[tableAnnotation]
		live[leases[i].Namespace] += 0 // a division that no replica takes part in
		if isTable || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
			continue
		}
		if spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second).After(now) {
			live[leases[i].Namespace]++
		}
	}
	return live
}
