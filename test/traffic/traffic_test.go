package traffic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

func request[T any](message *T) *connect.Request[T] { return connect.NewRequest(message) }

// TestTraffic is one test, so that the program is built and the cluster is started
// once. Each part finds what those before it have left.
func TestTraffic(t *testing.T) {
	w := newWorld(t)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"secret", w.testSecret}, {"chain", w.testChain}, {"numbers", w.testNumbers}, {"history", w.testHistory}, {"explain", w.testExplain},
		{"push", w.testPush}, {"refusal", w.testRefusal}, {"pods", w.testPods}, {"restart", w.testRestart},
	} {
		if !t.Run(part.name, part.test) {
			t.Fatalf("without %s there is nothing more to see", part.name)
		}
	}
}

// testSecret: without the secret no client gets in, on either side; it may come later
// than the edge.
func (w *world) testSecret(t *testing.T) {
	w.edge.Address(t, "traffic")
	seen := w.await(t, w.client, func(s *watching) error {
		if len(s.last.GetEdges()) != 1 || s.last.GetEdges()[0].GetProblem() == "" {
			return fmt.Errorf("the edges are %v", s.last.GetEdges())
		}
		return nil
	})
	if edge := seen.last.GetEdges()[0]; edge.GetReady() || !strings.Contains(edge.GetProblem(), "secret") {
		t.Errorf("the edge without a secret is %v", edge)
	}
	w.mount(t)
	w.await(t, w.client, func(s *watching) error {
		if edges := s.last.GetEdges(); len(edges) != 1 || !edges[0].GetReady() {
			return fmt.Errorf("the edges are %v", edges)
		}
		return nil
	})
	if err := w.stranger(); err == nil {
		t.Error("the edge answers somebody without the secret")
	}
}

// routeOf finds a route by its path.
func (s *watching) routeOf(path string) (int, *runtimev1.TrafficRoute) {
	for i, route := range s.table.GetRoutes() {
		if route.GetHost() == host && route.GetPath() == path {
			return i, route
		}
	}
	return -1, nil
}

// application is what is behind a route.
func (s *watching) application(route *runtimev1.TrafficRoute) *runtimev1.TrafficApplication {
	if place := int(route.GetApplication()); place > 0 && place <= len(s.table.GetApplications()) {
		return s.table.GetApplications()[place-1]
	}
	return nil
}

// shows is nil when the chain from a commit to a route is complete.
func (s *watching) shows(path, commit string) error {
	_, route := s.routeOf(path)
	if route == nil {
		return fmt.Errorf("there is no route %s: %v", path, s.table.GetRoutes())
	}
	app := s.application(route)
	if app.GetRef().GetName() != "shop" || app.GetRevision() != commit || app.GetCommitAuthor() == "" {
		return fmt.Errorf("the Application is %v, not shop at %s", app, commit)
	}
	if backends := route.GetBackends(); len(backends) != 1 || backends[0].GetReadyEndpoints() != 1 {
		return fmt.Errorf("the backends are %v", backends)
	}
	return nil
}

// testChain: the route, its Ingress, the Application and the commit are reported.
func (w *world) testChain(t *testing.T) {
	commit := w.repository.Head(t)
	seen := w.await(t, w.client, func(s *watching) error { return s.shows("/", commit) })
	_, route := seen.routeOf("/")
	if ref := route.GetRef(); ref.GetKind() != "Ingress" || ref.GetNamespace() != w.target || ref.GetName() != "shop" {
		t.Errorf("the route is of %v", ref)
	}
	// The rules of a Gateway's routes have the same chain.
	seen = w.await(t, w.client, func(s *watching) error { return s.shows("/route", commit) })
	if _, route := seen.routeOf("/route"); route.GetRef().GetKind() != "HTTPRoute" || route.GetRef().GetName() != "shop-route" {
		t.Errorf("the route is of %v", route.GetRef())
	}
	if app := seen.application(route); app.GetSync() != "Synced" || app.GetRef().GetNamespace() != w.control {
		t.Errorf("the Application is %v", app)
	}
}

// numbersOf are those of a route; zero without requests.
func (s *watching) numbersOf(path string) *runtimev1.TrafficNumbers {
	place, _ := s.routeOf(path)
	for _, each := range s.last.GetTraffic() {
		if int(each.GetRoute()) == place {
			return each.GetNumbers()
		}
	}
	return &runtimev1.TrafficNumbers{}
}

// testNumbers: after the load every request is counted once, and the times of slow
// ones are seen while they run.
func (w *world) testNumbers(t *testing.T) {
	err := errors.Join(w.load(t.Context(), host, "/", 300), w.load(t.Context(), host, "/fail", 100), w.load(t.Context(), "nobody.example.com", "/", 60))
	must.Do(t, err)
	loaded := make(chan error, 1)
	go func() { loaded <- w.load(t.Context(), host, "/slow", 200) }()
	seen := w.await(t, w.client, func(s *watching) error {
		if n := s.numbersOf("/slow"); n.GetRequestsPerSecond() <= 0 || n.GetP50() == 0 {
			return fmt.Errorf("the numbers of /slow are %v", n)
		}
		return nil
	})
	n := seen.numbersOf("/slow")
	// Four clients, one request after the other: no more than this can be.
	if most := 4 / slow.Seconds() * 1.5; n.GetRequestsPerSecond() > most {
		t.Errorf("%.0f requests per second, more than the %.0f that there can be", n.GetRequestsPerSecond(), most)
	}
	if least := slow.Seconds() * 7 / 8; n.GetP50() < least || n.GetP99() < n.GetP50() || n.GetErrorsPerSecond() != 0 {
		t.Errorf("the numbers of /slow are %v, and each takes %v", n, slow)
	}
	must.Do(t, <-loaded)
	seen = w.await(t, w.client, func(s *watching) error {
		if total := s.last.GetTotal().GetRequests(); total < 660 {
			return fmt.Errorf("%d requests of 660", total)
		}
		return nil
	})
	for path, want := range map[string][2]uint64{"/": {400, 100}, "/slow": {200, 0}} {
		if got := seen.numbersOf(path); got.GetRequests() != want[0] || got.GetErrors() != want[1] {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if total, stray := seen.last.GetTotal().GetRequests(), seen.last.GetUnrouted().GetRequests(); total != 660 || stray != 60 {
		t.Errorf("%d requests, %d without a route", total, stray)
	}
}

// testExplain: what serves a URL and why, and what does not.
func (w *world) testExplain(t *testing.T) {
	ask := func(url string) (*runtimev1.ExplainResponse, error) {
		answer, err := w.client.Explain(t.Context(), request(&runtimev1.ExplainRequest{Url: url, Headers: []string{"X-A: b"}}))
		if err != nil {
			return nil, err
		}
		return answer.Msg, nil
	}
	answer, err := ask("http://" + host + "/slow")
	must.Do(t, err)
	verdicts := map[string]int{}
	for _, step := range answer.GetSteps() {
		verdicts[step.GetVerdict()]++
	}
	if answer.GetRoute().GetPath() != 1 || verdicts["wins"] != 1 || verdicts["outranked"] != 1 || answer.GetWhy() == "" {
		t.Errorf("/slow is explained by %v", answer)
	}
	if app := answer.GetApplication(); app.GetRef().GetName() != "shop" || app.GetCommitMessage() == "" {
		t.Errorf("the Application is %v", app)
	}
	if len(answer.GetBackends()) != 1 || len(answer.GetBackends()[0].GetEndpoints()) != 1 || !strings.Contains(answer.GetText(), "serves it") {
		t.Errorf("the backends are %v, the text %q", answer.GetBackends(), answer.GetText())
	}
	if answer, err = ask("http://nobody.example.com/"); err != nil || answer.GetStatus() != 404 || answer.GetRoute() != nil {
		t.Errorf("nobody is explained by %v, %v", answer, err)
	}
	if _, err := ask("nonsense"); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("nonsense: %v", err)
	}
}

// testPush: another commit is seen behind the route.
func (w *world) testPush(t *testing.T) {
	commit := w.repository.Commit(t, map[string]string{"deploy/more.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"}, "Sell oars too")
	seen := w.await(t, w.client, func(s *watching) error { return s.shows("/", commit) })
	_, route := seen.routeOf("/")
	if app := seen.application(route); !strings.Contains(app.GetCommitMessage(), "Sell oars too") {
		t.Errorf("the commit says %q", app.GetCommitMessage())
	}
	// The counts of a route outlive a change of the table.
	if got := seen.numbersOf("/").GetRequests(); got != 400 {
		t.Errorf("%d requests after the push", got)
	}
}

// testRefusal: a refusal is reported with what to do.
func (w *world) testRefusal(t *testing.T) {
	w.cluster.Apply(t, w.target, `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: wrong, annotations: {slipway.dev/rate-limit: nonsense}}
spec:
  ingressClassName: slipway
  rules:
    - host: wrong.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}
`)
	seen := w.await(t, w.client, func(s *watching) error {
		if len(s.table.GetRefusals()) != 1 {
			return fmt.Errorf("the refusals are %v", s.table.GetRefusals())
		}
		return nil
	})
	if got := seen.table.GetRefusals()[0]; got.GetName() != "wrong" || got.GetReason() != "Invalid" || !strings.Contains(got.GetField(), "rate-limit") || got.GetMessage() == "" {
		t.Errorf("the refusal is %v", got)
	}
}

// testPods: without addresses the Pods of edges are asked.
func (w *world) testPods(t *testing.T) {
	options := w.options
	options.Edges = nil
	client := clientOf(t, options)
	w.await(t, client, func(s *watching) error {
		if len(s.last.GetEdges()) != 0 || !strings.Contains(s.last.GetProblem(), "no edge") {
			return fmt.Errorf("without Pods: %v", s.last)
		}
		return nil
	})
	pods := w.cluster.Client.CoreV1().Pods(w.control)
	must.Get(pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Labels: map[string]string{"app.kubernetes.io/part-of": "slipway", "app.kubernetes.io/component": "edge"}},
		Spec: corev1.PodSpec{
			// No node takes it: the process is started by the test.
			NodeSelector: map[string]string{"nowhere": "true"}, Containers: []corev1.Container{{Name: "edge", Image: "edge"}},
		},
	}, metav1.CreateOptions{}))(t)
	// The scheduler writes its status at the same time.
	programs.Eventually(t, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "edge-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, w.podAddress(251)
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
	seen := w.await(t, client, func(s *watching) error {
		if edges := s.last.GetEdges(); len(edges) != 1 || !edges[0].GetReady() {
			return fmt.Errorf("the edges are %v", edges)
		}
		return nil
	})
	if got := seen.numbersOf("/").GetRequests(); seen.last.GetEdges()[0].GetName() != "edge-0" || got != 400 {
		t.Errorf("%v, %d requests", seen.last.GetEdges(), got)
	}
}

// testRestart: an edge that is away keeps its table, and one that comes back counts
// from 0.
func (w *world) testRestart(t *testing.T) {
	restarted := false
	w.await(t, w.client, func(s *watching) error {
		edges := s.last.GetEdges()
		switch {
		case s.table == nil:
			return errors.New("there is no table")
		case w.edge != nil:
			w.edge.Kill()
			w.edge = nil
			return errors.New("the edge was there")
		case !restarted && (len(edges) != 1 || edges[0].GetReady() || edges[0].GetProblem() == ""):
			return fmt.Errorf("the edge is gone, and the edges are %v", edges)
		case !restarted:
			if _, route := s.routeOf("/"); route == nil {
				t.Error("the table went with the edge")
			}
			restarted = true
			w.startEdge(t)
			return errors.New("the edge starts")
		case !edges[0].GetReady():
			return fmt.Errorf("the edges are %v", edges)
		}
		if total := s.last.GetTotal(); total.GetRequests() != 0 || total.GetRequestsPerSecond() != 0 {
			return fmt.Errorf("after a restart: %v", total)
		}
		return nil
	})
}
