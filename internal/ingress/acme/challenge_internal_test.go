package acme

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// busySecret is an API server where another writer always comes first.
type busySecret struct{ writes []time.Time }

// RoundTrip implements [http.RoundTripper].
func (b *busySecret) RoundTrip(r *http.Request) (*http.Response, error) {
	status, reason := http.StatusNotFound, "NotFound"
	if r.Method != http.MethodGet {
		b.writes = append(b.writes, time.Now())
		status, reason = http.StatusConflict, "Conflict"
	}
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `"}`
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// TestChallengeConflictsBackOff: attempts after a conflict wait longer each time,
// and end before the time of CleanUp.
func TestChallengeConflictsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &busySecret{}
		client, err := kubernetes.NewForConfig(&rest.Config{
			Host: "http://api.example", QPS: -1, Transport: server, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		})
		must.Do(t, err)
		manager := New(&kube.Cluster{Client: client, Namespace: "edge"}, Options{})
		err = manager.updateChallenges(t.Context(), func(entries map[string][]byte) { entries["token"] = []byte("x") })
		if !apierrors.IsConflict(err) || len(server.writes) != challengeTries {
			t.Fatalf("%d attempts: %v", len(server.writes), err)
		}
		for i := 1; i < challengeTries; i++ {
			if waited := server.writes[i].Sub(server.writes[i-1]); waited < challengeBackoff.Base(i)/2 {
				t.Errorf("attempt %d came after %v", i+1, waited)
			}
		}
		if took := server.writes[challengeTries-1].Sub(server.writes[0]); took >= cleanUpTimeout {
			t.Errorf("all attempts took %v", took)
		}
	})
}
