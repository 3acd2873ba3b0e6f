package live

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What the cluster is like is asked again for charts after a while, and for nothing
// else: a commit to a folder costs no discovery.
func TestVersionAge(t *testing.T) {
	at, asked := time.Now(), 0
	kinds := &Kinds{
		discover: func(context.Context, *directory) (*directory, error) {
			asked++
			return &directory{server: "v1.2.3", apis: []string{"v1"}}, nil
		},
		now: func() time.Time { return at }, learned: map[schema.GroupKind]lesson{},
	}
	for _, step := range []struct {
		name  string
		pass  time.Duration
		ask   func(context.Context) (string, []string, error)
		asked int
	}{
		{"the first question", 0, kinds.LastVersion, 1},
		{"nothing is old", discoveryAge, kinds.Version, 1},
		{"old is good enough", time.Hour, kinds.LastVersion, 1},
		{"old is not good enough", 0, kinds.Version, 2},
	} {
		at = at.Add(step.pass)
		version, apis, err := step.ask(t.Context())
		if err != nil || version != "v1.2.3" || len(apis) != 1 {
			t.Errorf("%s: %s, %v, %v", step.name, version, apis, err)
		}
		if asked != step.asked {
			t.Errorf("%s: %d discoveries, want %d", step.name, asked, step.asked)
		}
	}
	kinds.Invalidate()
	at = at.Add(2 * discoveryPause)
	if _, _, err := kinds.LastVersion(t.Context()); err != nil || asked != 3 {
		t.Errorf("after a kind has come or gone: %d discoveries, %v", asked, err)
	}
}
