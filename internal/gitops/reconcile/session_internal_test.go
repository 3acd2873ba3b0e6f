package reconcile

import (
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Since when an object has been Progressing survives a restart.
func TestProgressIsRemembered(t *testing.T) {
	key := tracking.Key{Kind: "Pod", Name: "a"}
	raw := &health.Status{Code: v1alpha1.Progressing, Message: "starts"}
	expired := &health.Status{Code: v1alpha1.Degraded, Message: "too long: starts"}
	before := func(code v1alpha1.HealthCode, message string) *v1alpha1.HealthStatus {
		return &v1alpha1.HealthStatus{Status: code, Message: message, LastTransitionTime: wholeSecond(noon().Add(-time.Hour))}
	}
	tests := []struct {
		what   string
		before *v1alpha1.HealthStatus
		want   time.Time
	}{
		{"nothing is known", nil, noon()},
		{"it was so before", before(v1alpha1.Progressing, "else"), noon().Add(-time.Hour)},
		{"it was healthy before", before(v1alpha1.Healthy, ""), noon()},
		{"it took too long before", before(v1alpha1.Degraded, expired.Message), time.Unix(0, 0)},
		{"it was degraded by itself before", before(v1alpha1.Degraded, "crashes"), noon()},
	}
	for _, test := range tests {
		s := &session{}
		if got := s.progressing(key, raw, test.before, expired, noon()); !got.Equal(test.want) {
			t.Errorf("%s: since %v, want %v", test.what, got, test.want)
		}
		if got := s.progressing(key, raw, nil, expired, noon().Add(time.Minute)); !got.Equal(test.want) {
			t.Errorf("%s: a minute later since %v, want %v", test.what, got, test.want)
		}
		s.progressing(key, &health.Status{Code: v1alpha1.Healthy}, nil, nil, noon())
		if len(s.progress) > 0 {
			t.Errorf("%s: it is remembered after it is healthy", test.what)
		}
	}
}
