package store

import (
	"fmt"
	"testing"
	"time"
)

// Expired rows are deleted in batches: a full one may not be the last.
func TestExpireInBatches(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, url string) {
		s, err := Open(t.Context(), Options{URL: url})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		account, err := s.CreateAccount(t.Context(), Account{Name: "crowd"})
		must(t, err)
		runtime, err := s.CreateRuntime(t.Context(), Runtime{AccountID: account.ID, Name: "crowd"})
		must(t, err)
		at := time.Unix(1_700_000_000, 0)
		// Transactions of a size that a busy machine writes in time.
		for begin := 0; begin <= expireBatch; begin += 500 {
			var rows []*Deployment
			for i := begin; i < min(begin+500, expireBatch+1); i++ {
				rows = append(rows, &Deployment{ID: fmt.Sprint(i), AccountID: account.ID, RuntimeID: runtime.ID, Sync: Sync{StartedAt: at, FinishedAt: at}})
			}
			must(t, s.write(t.Context(), func(c *call) error {
				return (&report{call: c, runtime: runtime}).insertDeployments(rows)
			}))
		}
		for _, want := range []struct {
			more bool
			left int
		}{{true, 1}, {false, 0}, {false, 0}} {
			more, err := s.ExpireDeployments(t.Context(), at.Add(time.Second))
			must(t, err)
			left, _, err := s.NewestDeployments(t.Context(), account.ID, DeploymentFilter{})
			must(t, err)
			if more != want.more || len(left) != want.left {
				t.Errorf("more is %v with %d left, want %+v", more, len(left), want)
			}
		}
	})
}
