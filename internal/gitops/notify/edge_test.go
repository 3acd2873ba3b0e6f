package notify_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/trafficreport"
	"slipway.dev/slipway/internal/programs"
)

// edgeTable is the table of an edge that serves hosts of the Ingress shop.
func edgeTable(hosts ...string) *trafficreport.Table {
	table := &trafficreport.Table{}
	for i, host := range hosts {
		table.Routes = append(table.Routes, trafficreport.Route{
			ID: trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "shop", Rule: i}, Host: host, Path: "/",
		})
	}
	// Of another object, and one without a backend.
	table.Routes = append(table.Routes,
		trafficreport.Route{ID: trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "other"}, Host: "other.example.com"},
		trafficreport.Route{ID: trafficreport.RouteID{Kind: "Ingress", Namespace: "shop", Name: "shop", Rule: 9}, Host: "broken.example.com", Status: 503})
	return table
}

// TestEdgeTriggers: subscribers learn of routes that every edge serves, once, and of
// certificates with a problem, each time.
func TestEdgeTriggers(t *testing.T) {
	w := newWorld(t)
	hook := newWebServer(t)
	w.configure(t, map[string]string{"service.webhook.hook": "url: " + hook.address,
		"template.app-route-served":        "webhook: {hook: {method: POST, path: /served, body: '{{join \",\" .edge.routes}}'}}",
		"template.app-certificate-problem": "webhook: {hook: {method: POST, path: /certificate, body: '{{join \",\" .edge.problems}}'}}"})
	w.application(t, "shop", `notifications.argoproj.io/subscribe.on-route-served.hook: "", notifications.argoproj.io/subscribe.on-certificate-problem.hook: ""`)
	const resources = `{"status": {"resources": [{"group": "networking.k8s.io", "kind": "Ingress", "namespace": "shop", "name": "shop"}]}}`
	must.Get(argotest.Applications(w.Cluster, w.namespace).Patch(t.Context(), "shop", types.MergePatchType, []byte(resources), metav1.PatchOptions{}, "status"))(t)

	var tables atomic.Pointer[[]*trafficreport.Table]
	var polls atomic.Int64
	serve := func(all ...*trafficreport.Table) { tables.Store(&all) }
	serve(edgeTable("a.example.com"), edgeTable())
	edges := func(options *notify.Options) {
		options.EdgeInterval = 50 * time.Millisecond
		options.Edges = func(context.Context) (reports []*trafficreport.Report, _ error) {
			polls.Add(1)
			for _, one := range *tables.Load() {
				reports = append(reports, &trafficreport.Report{Ready: true, Table: one})
			}
			// One that starts still has the table of before.
			return append(reports, &trafficreport.Report{Table: edgeTable()}), nil
		}
	}
	// polled waits until the tables of now were read, and what they queued was evaluated:
	// a message too many is then seen before the next one.
	polled := func() {
		t.Helper()
		from := polls.Load()
		programs.Until(t, "the next polls", func() bool { return polls.Load() >= from+3 })
	}
	stop := w.startWith(t, edges)
	expect := func(want ...string) {
		t.Helper()
		await(t, len(want), hook)
		exactly(t, len(want), hook)
		for i, one := range hook.messages() {
			if got := one.path + " " + one.body; !strings.HasPrefix(got, want[i]) {
				t.Errorf("message %d is %q, want %q", i, got, want[i])
			}
		}
	}
	// One of the two edges does not have the route yet.
	polled()
	serve(edgeTable("a.example.com"), edgeTable("a.example.com"))
	first := "/served a.example.com/"
	expect(first)
	serve(edgeTable("a.example.com", "b.example.com"))
	second := "/served a.example.com/,b.example.com/"
	expect(first, second)
	// A report that does not list every route shows nothing.
	incomplete := edgeTable("c.example.com")
	incomplete.MoreRoutes = 1
	serve(incomplete)
	polled()
	// After a restart nothing is sent again, although the edges are unknown at first.
	stop()
	w.startWith(t, edges)
	failing := edgeTable("a.example.com", "b.example.com")
	failing.Certificates = []trafficreport.Certificate{
		{Namespace: "shop", Name: "tls", Names: []string{"*.example.com"}, NotAfter: time.Now().Add(time.Hour)},
		{Namespace: "shop", Name: "elsewhere", Names: []string{"*.example.org"}, NotAfter: time.Now().Add(time.Hour)},
		{Namespace: "shop", Name: "good", Names: []string{"a.example.com"}, NotAfter: time.Now().Add(30 * 24 * time.Hour)},
	}
	serve(failing)
	third := "/certificate the certificate shop/tls of *.example.com expires at "
	expect(first, second, third)
	// A repaired certificate ends it, and the next problem is another message.
	serve(edgeTable("a.example.com", "b.example.com"))
	w.settled(t, "shop", "on-certificate-problem")
	refused := edgeTable("a.example.com", "b.example.com")
	refused.Refusals = []refusal.Refusal{{Object: refusal.Object{Kind: "Ingress", Namespace: "shop", Name: "shop"}, Field: "spec.tls[0].secretName", Message: "there is no Secret tls"}}
	serve(refused)
	expect(first, second, third, "/certificate Ingress shop: there is no Secret tls")
}

// settled waits until the record of an Application has no entry of a trigger.
func (w *world) settled(t *testing.T, name, trigger string) {
	t.Helper()
	argotest.WaitFor(t, argotest.Applications(w.Cluster, w.namespace), name, programs.Timeout, func(app *v1alpha1.Application) error {
		if record := app.Annotations[notify.RecordAnnotation]; strings.Contains(record, trigger) {
			return errors.New("the record has " + record)
		}
		return nil
	})
}
