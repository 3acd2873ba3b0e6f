package health_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/health"
)

func TestWorse(t *testing.T) {
	order := []health.Code{healthy, suspended, progressing, missing, degraded, unknown}
	for i := range order {
		for j := range order {
			if got := health.Worse(order[i], order[j]); got != (i > j) {
				t.Errorf("%s is worse than %s: %t", order[i], order[j], got)
			}
		}
	}
	if !health.Worse("Splendid", degraded) {
		t.Error("a code that is not defined is not Unknown")
	}
}

// TestAggregate: the health of an Application, as Argo CD has it since 2026.
func TestAggregate(t *testing.T) {
	is := func(code health.Code) *health.Status { return &health.Status{Code: code, Message: "why"} }
	live := func(code health.Code) health.Resource {
		return health.Resource{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web", Live: true, Health: is(code)}
	}
	child := func(code health.Code) health.Resource {
		return health.Resource{Group: "argoproj.io", Kind: "Application", Name: "child", Live: true, Health: is(code)}
	}
	with := func(r health.Resource, change func(*health.Resource)) health.Resource { change(&r); return r }
	absent := health.Resource{Kind: "Service", Health: is(missing)}
	for _, test := range []struct {
		name      string
		resources []health.Resource
		code      health.Code
		message   string
	}{
		{"no objects", nil, healthy, ""},
		{"the worst counts", []health.Resource{live(healthy), live(degraded), live(progressing)}, degraded, "Deployment shop/web is Degraded: why"},
		{"an object without health does not count", []health.Resource{{Kind: "ConfigMap", Live: true}}, healthy, ""},
		{"a missing object does not count", []health.Resource{live(healthy), absent}, healthy, ""},
		{"all are missing", []health.Resource{absent, absent}, missing, "none of the objects"},
		{"only hooks", []health.Resource{with(absent, func(r *health.Resource) { r.Hook = true })}, healthy, ""},
		{"a hook does not count", []health.Resource{live(healthy), with(live(degraded), func(r *health.Resource) { r.Hook = true })}, healthy, ""},
		{"an ignored object does not count, and is there", []health.Resource{with(live(degraded), func(r *health.Resource) { r.Ignored = true }), absent}, healthy, ""},
		{"the Application itself does not count, and is there", []health.Resource{with(child(degraded), func(r *health.Resource) { r.Self = true }), absent}, healthy, ""},
		{"a child that is Missing does not count", []health.Resource{child(missing)}, healthy, ""},
		{"a child that is Unknown does not count", []health.Resource{child(unknown)}, healthy, ""},
		{"a child that is Degraded counts", []health.Resource{child(degraded)}, degraded, "Application child is Degraded"},
		{"another object that is Unknown counts", []health.Resource{live(unknown)}, unknown, ""},
		{"the first of the worst is named", []health.Resource{live(degraded), child(degraded)}, degraded, "Deployment shop/web"},
	} {
		if got := health.Aggregate(test.resources); got.Code != test.code || !strings.HasPrefix(got.Message, test.message) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	if !health.Ignored(parse(t, `{apiVersion: v1, kind: A, metadata: {annotations: {argocd.argoproj.io/ignore-healthcheck: "true"}}}`)) ||
		health.Ignored(parse(t, `{apiVersion: v1, kind: A}`)) || health.Ignored(nil) {
		t.Error("the annotation")
	}
}

func TestDeadline(t *testing.T) {
	for _, test := range []struct {
		object string
		want   time.Duration // 0 is none
	}{
		{`{apiVersion: apps/v1, kind: Deployment}`, 0},
		{`{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {slipway.dev/progress-deadline: 90s}}}`, 90 * time.Second},
		{`{apiVersion: apps/v1, kind: Deployment, metadata: {deletionTimestamp: "2026-03-01T11:59:00Z"}}`, 10 * time.Minute},
		{`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 3}}`, 30 * time.Minute},
		{`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 9000000000000}}`, 2 * time.Hour},
		{`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: -1}}`, 10 * time.Minute},
		{`{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 10}}`, 20 * time.Minute},
		{`{apiVersion: apps/v1, kind: ReplicaSet}`, 10 * time.Minute},
		{`{apiVersion: batch/v1, kind: Job}`, 0},
		{`{apiVersion: v1, kind: Pod, spec: {restartPolicy: Never}}`, 0},
		{`{apiVersion: v1, kind: Pod, spec: {restartPolicy: Always}}`, 10 * time.Minute},
		{`{apiVersion: v1, kind: Service}`, 10 * time.Minute},
		{`{apiVersion: networking.k8s.io/v1, kind: Ingress}`, 10 * time.Minute},
		{`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {annotations: {slipway.dev/progress-deadline: none}}}`, 0},
		{`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}`, 5 * time.Minute},
		{`{apiVersion: argoproj.io/v1alpha1, kind: Application}`, 0},
		{`{apiVersion: example.com/v1, kind: Database}`, time.Hour},
		{`{apiVersion: example.com/v1, kind: Database, metadata: {annotations: {slipway.dev/progress-deadline: soon}}}`, time.Hour},
		{`{apiVersion: example.com/v1, kind: Database, metadata: {annotations: {slipway.dev/progress-deadline: 1ms}}}`, time.Hour},
	} {
		got, limited := health.Deadline(parse(t, test.object))
		if limited != (test.want > 0) || limited && got != test.want {
			t.Errorf("%s: %s %t, want %s", test.object, got, limited, test.want)
		}
	}
	if _, limited := health.Deadline(nil); limited {
		t.Error("no object has a deadline")
	}
}

// TestWithDeadline: Progressing that takes too long is Degraded, with the reason.
func TestWithDeadline(t *testing.T) {
	ingress := parse(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress}`)
	misspelt := parse(t, `{apiVersion: v1, kind: Service, metadata: {annotations: {slipway.dev/progress-deadline: soon}}}`)
	waiting := &health.Status{Code: progressing, Message: "Waiting for an address"}
	if got := health.WithDeadline(waiting, ingress, noon, noon.Add(10*time.Minute-1)); got != waiting {
		t.Errorf("before: %+v", got)
	}
	got := health.WithDeadline(waiting, ingress, noon, noon.Add(10*time.Minute))
	if want := (health.Status{Code: degraded, Message: "it takes longer than 10m0s: Waiting for an address"}); *got != want {
		t.Errorf("after: %+v", got)
	}
	// A text that changes with the time would be written again and again.
	if later := health.WithDeadline(waiting, ingress, noon, noon.Add(time.Hour)); *later != *got {
		t.Errorf("later: %+v", later)
	}
	if got := health.WithDeadline(waiting, misspelt, noon, noon.Add(time.Hour)); got.Code != degraded || !strings.Contains(got.Message, `is "soon": write a time`) {
		t.Errorf("an annotation that cannot be read: %+v", got)
	}
	for _, status := range []*health.Status{nil, {Code: healthy}, {Code: suspended}, {Code: degraded}} {
		if got := health.WithDeadline(status, ingress, noon, noon.Add(time.Hour)); got != status {
			t.Errorf("%+v became %+v", status, got)
		}
	}
	if got := health.WithDeadline(waiting, ingress, time.Time{}, noon); got != waiting {
		t.Errorf("since nobody knows when: %+v", got)
	}
}
