package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
)

// A chart finds objects with the function lookup if its project allows that, and
// only those that the project could deploy. An object of its own keeps what it was
// made with.
func TestLookup(t *testing.T) {
	w := newWorld(t)
	foreign := w.cluster.Namespace(t)
	w.cluster.Apply(t, foreign, configMap("origin", "of others"))
	w.cluster.Apply(t, w.target, configMap("origin", "found"))
	lookup := func(name, namespace string) string {
		return fmt.Sprintf(`{{ dig "data" "value" "nothing" (lookup "v1" "ConfigMap" %q %q) }}`, namespace, name)
	}
	repository := w.repository("shop", map[string]string{
		"shop/Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
		"shop/templates/a.yaml": configMap("own", `{{ dig "data" "value" (randAlpha 20) (lookup "v1" "ConfigMap" .Release.Namespace "own") }}`),
		"shop/templates/b.yaml": configMap("copy", lookup("origin", w.target)+" "+lookup("origin", foreign)+" "+lookup("missing", w.target)),
	})
	right := func(allowed string) {
		w.cluster.Apply(t, w.control, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team, annotations: {%s: %q}}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: %s}]
`, project.LookupAnnotation, allowed, w.target))
	}
	right("false")
	w.options.Interval, w.options.Jitter = 300*time.Millisecond, time.Millisecond
	w.start()
	w.applicationIn("team", "shop", repository, "shop", "{automated: {selfHeal: true}}")
	w.synced("shop", repository.Head(t))
	w.value("copy", "nothing nothing nothing")
	right("true")
	w.value("copy", "found nothing nothing")
	before := w.valueOf("own")
	w.synced("shop", repository.Commit(t, map[string]string{"shop/templates/c.yaml": configMap("more", "1")}, "more"))
	w.value("more", "1")
	if now := w.valueOf("own"); now != before || len(now) != 20 {
		t.Errorf("the value of its own object was %q and is %q", before, now)
	}
}
