package up

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/programs"
)

func TestDemoObserves(t *testing.T) {
	deployment := func(generation, observed int64, replicas, updated, ready int32) *appsv1.Deployment {
		const desired = 2
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		d.Spec.Replicas = new(int32)
		*d.Spec.Replicas = desired
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "slipway.dev/demo:v2"}}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: ready,
		}
		return d
	}
	for _, test := range []struct {
		name  string
		found []*appsv1.Deployment
		want  string
	}{
		{"complete", []*appsv1.Deployment{deployment(1, 1, 2, 2, 2)}, ""},
		{"none ready", []*appsv1.Deployment{deployment(1, 1, 2, 2, 0)}, "0 of 2 replicas ready"},
		{"one ready", []*appsv1.Deployment{deployment(1, 1, 2, 2, 1)}, "1 of 2 replicas ready"},
		{"not observed yet", []*appsv1.Deployment{deployment(2, 1, 2, 2, 2)}, "waiting for the Deployment's controller"},
		{"rolling", []*appsv1.Deployment{deployment(2, 2, 3, 1, 2)}, "1 of 2 replicas updated"},
		{"old ones left", []*appsv1.Deployment{deployment(2, 2, 3, 2, 2)}, "1 old replicas are ending"},
		{"deleted", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d demoStatus
			err := d.observe(test.found)
			if got := errorText(err); got != test.want {
				t.Errorf("missing %q, want %q", got, test.want)
			}
			if (d.image == "") != (test.found == nil) {
				t.Errorf("the image is %q", d.image)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAnswers(t *testing.T) {
	status := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-status) }))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	// A proxy of the user's has nothing to do with Pods on this machine.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	for code, want := range map[int]bool{200: true, 404: true, 503: false} {
		status <- code
		if got := responds(t.Context(), address); got != want {
			t.Errorf("status %d: %v, want %v", code, got, want)
		}
	}
	if responds(t.Context(), programs.FreeAddress(t).String()) {
		t.Error("a closed port answered")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if responds(ended, address) {
		t.Error("answered after the end")
	}
}

func TestShowDemo(t *testing.T) {
	healthy := demoStatus{application: "Synced and Healthy", image: "slipway.dev/demo:v9", ready: 2, desired: 2, address: "192.0.2.2:1"}
	for _, test := range []struct {
		name   string
		scene  scene
		detail string
		titles []string
	}{
		{"healthy", scene{demo: healthy, edge: edgeStatus{host: "demo.localhost", serves: true}},
			"Application argocd/demo, Synced and Healthy, slipway.dev/demo:v9, 2 of 2 replicas ready",
			[]string{"send a request to one Pod", "clone the demo", "change it to v10", "push the change", "see the response", "status of the demo"}},
		{"not served", scene{demo: healthy}, "Synced and Healthy",
			[]string{"send a request to one Pod", "clone the demo", "change it to v10", "push the change", "status of the demo"}},
		{"nothing of ours in the repository", scene{demo: demoStatus{application: "Synced and Healthy"}},
			"Application argocd/demo, Synced and Healthy", []string{"clone the demo", "status of the demo"}},
		{"deleted", scene{demo: demoStatus{gone: true}}, "--reset", nil},
		{"without git", scene{git: gitStatus{missing: "git is not installed"}}, "left out", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			row, hints := showDemo(&test.scene)
			if !strings.Contains(row.Detail, test.detail) {
				t.Errorf("the demo is %q, want %q", row.Detail, test.detail)
			}
			if !slices.EqualFunc(hints, test.titles, func(hint Hint, title string) bool { return hint.Title == title }) {
				t.Errorf("hints are %q, want %q", hints, test.titles)
			}
		})
	}
}

func TestNextVersion(t *testing.T) {
	for image, want := range map[string]string{
		"slipway.dev/demo:v1": "v2", "slipway.dev/demo:v9": "v10", "slipway.dev/demo:latest": "", "nginx:1": "", "": "",
	} {
		if got := nextVersion(image); got != want {
			t.Errorf("after %q comes %q, want %q", image, got, want)
		}
	}
}
