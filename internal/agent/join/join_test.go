package join_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// TestJoins: R31, R61: the first start registers with the key, keeps the
// credential in a Secret of ours, and sends heartbeats. Other replicas have the
// credential too.
func TestJoins(t *testing.T) {
	w := newWorld(t)
	w.platform.change(func(p *platform) {
		p.git = &platformv1.GitSettings{Provider: "github", SharedRepository: "https://github.com/a/b.git"}
	})
	w.state = &platformv1.HeartbeatRequest{
		PendingSteps: []platformv1.CompletionStep{platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS},
		Components:   []*platformv1.Component{{Name: "agent", Health: platformv1.HealthStatus_HEALTH_STATUS_HEALTHY}},
	}
	leader, other := w.start(t, true), w.start(t, false)
	leader.awaitPhase(t, join.Joined)
	other.awaitPhase(t, join.Joined)
	kept := w.secret(t, func(found *corev1.Secret) error {
		if len(found.Data["git-settings"]) == 0 {
			return errors.New("the Git settings are not kept yet")
		}
		return nil
	})
	if kept.Type != corev1.SecretTypeOpaque || kept.Labels["app.kubernetes.io/managed-by"] != "slipway" || kept.Labels["slipway.dev/runtime"] != "prod" {
		t.Errorf("the Secret is of the type %s with the labels %v", kept.Type, kept.Labels)
	}
	for _, r := range []*replica{leader, other} {
		token, err := r.AccessToken(t.Context())
		if err != nil || token != "access-CANARY-1" {
			t.Errorf("the token is %q: %v", token, err)
		}
		if r.RuntimeID() != "runtime-1" || r.AccountID() != accountID || len(r.TunnelURLs()) != 1 || r.PlatformKeys() == "" || !strings.HasPrefix(r.TunnelHost(), accountID) {
			t.Errorf("a replica does not know what the platform said: %s %s %v", r.RuntimeID(), r.AccountID(), r.TunnelURLs())
		}
	}
	if git := leader.GitSettings(); git.GetProvider() != "github" || !leader.ConfigurationRuntime() {
		t.Errorf("the Git settings are %v", git)
	}
	w.platform.change(func(p *platform) {
		asked := p.registered[0]
		if len(p.registered) != 1 || asked.GetName() != "prod" || asked.GetClusterUid() == "" || asked.GetKubernetesVersion() == "" ||
			asked.GetAccessMode() != platformv1.AccessMode_ACCESS_MODE_TUNNEL || asked.GetVersion() != "1.2.3" {
			t.Errorf("%d registrations, the first is %v", len(p.registered), asked)
		}
	})
}

// TestHeartbeats: R61, R63: the agent reports its state once, then that nothing changed, and
// the state again when the platform asks for it.
func TestHeartbeats(t *testing.T) {
	w := newWorld(t)
	w.state = &platformv1.HeartbeatRequest{PendingSteps: []platformv1.CompletionStep{platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN}}
	w.start(t, true)
	w.platform.awaitBeats(t, 3)
	w.platform.change(func(p *platform) {
		first, second := p.beats[0], p.beats[1]
		if first.GetUnchanged() || len(first.GetPendingSteps()) != 1 || first.GetVersion() != "1.2.3" || first.GetKubernetesVersion() == "" {
			t.Errorf("the first heartbeat is %v", first)
		}
		if !second.GetUnchanged() || second.GetVersion() != "" {
			t.Errorf("the second heartbeat is %v", second)
		}
		p.beats, p.sendAll = nil, true
	})
	w.platform.await(t, func(p *platform) string {
		for _, beat := range p.beats {
			if !beat.GetUnchanged() && len(beat.GetPendingSteps()) == 1 {
				return ""
			}
		}
		return "everything was not told again"
	})
}

// TestReportSoon: a change of the state is reported before the next heartbeat is due, once for
// many changes.
func TestReportSoon(t *testing.T) {
	w := newWorld(t)
	w.platform.change(func(p *platform) { p.next = time.Hour })
	leader := w.start(t, true)
	for beats := 1; beats <= 3; beats++ {
		w.platform.await(t, func(p *platform) string {
			if len(p.beats) < beats {
				return fmt.Sprintf("%d heartbeats of %d", len(p.beats), beats)
			}
			return ""
		})
		leader.ReportSoon()
		leader.ReportSoon()
	}
}

// TestLostAnswers: a request that was stored but got no response is sent again, and nothing is
// used twice.
func TestLostAnswers(t *testing.T) {
	w := newWorld(t)
	seen := map[string]int{}
	w.platform.change(func(p *platform) {
		p.life = 4 * time.Second
		p.cut = func(procedure string) (before, after bool) {
			seen[procedure]++
			n := seen[procedure]
			return n%5 == 1, n%5 == 2
		}
	})
	w.start(t, true)
	w.platform.await(t, func(p *platform) string {
		if p.renewals < 4 || len(p.beats) < 10 {
			return fmt.Sprintf("%d renewals and %d heartbeats", p.renewals, len(p.beats))
		}
		return ""
	})
	w.platform.change(func(p *platform) {
		if len(p.registered) != 2 || p.reused > 0 {
			t.Errorf("%d registrations, %d tokens that were not good: one registration is repeated, and nothing else", len(p.registered), p.reused)
		}
	})
}

// TestEndedAnywhere: a process that ends at any point leaves what the next one goes
// on with: no further registration, no token that is used twice.
func TestEndedAnywhere(t *testing.T) {
	w := newWorld(t)
	w.platform.change(func(p *platform) { p.life = 2 * time.Second })
	dice := rand.New(rand.NewPCG(5, 6))
	for range 25 {
		r := w.start(t, true)
		asked := dice.IntN(4)
		w.platform.await(t, func(p *platform) string {
			if asked == 0 || p.renewals+len(p.beats)+len(p.registered) >= asked {
				return ""
			}
			return "nothing was asked"
		})
		r.stop()
	}
	w.start(t, true).awaitPhase(t, join.Joined)
	w.platform.change(func(p *platform) {
		// The first processes may have ended before the Secret was written.
		if len(p.registered) > 6 || p.reused > 0 {
			t.Errorf("%d registrations, %d tokens that were not good", len(p.registered), p.reused)
		}
	})
}

// TestKeyIsReadAgain: R31: a key that is missing or rejected is read again, so that
// a right one needs no restart.
func TestKeyIsReadAgain(t *testing.T) {
	w := newWorld(t)
	must.Do(t, os.Remove(w.keyFile))
	r := w.start(t, true)
	if status := r.awaitPhase(t, join.KeyMissing); !strings.Contains(status.Message, w.keyFile) {
		t.Errorf("it says %q", status.Message)
	}
	w.writeKey(t, otherKey)
	r.awaitPhase(t, join.KeyRejected)
	w.event(t, join.KeyRejected)
	w.writeKey(t, goodKey)
	r.awaitPhase(t, join.Joined)
}

// TestKeyInASecret: R31: the key may be in a Secret of the namespace, and one that
// is not there is named with what to run.
func TestKeyInASecret(t *testing.T) {
	w := newWorld(t)
	key := join.KeySecret(w.Cluster.Cluster, w.namespace, "slipway-key", "token")
	if _, err := key.Key(t.Context()); err == nil || !strings.Contains(err.Error(), "kubectl create secret") {
		t.Errorf("the error is %v", err)
	}
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "slipway-key"}, StringData: map[string]string{"token": goodKey + "\n"}}
	must.Get(w.Client.CoreV1().Secrets(w.namespace).Create(t.Context(), made, metav1.CreateOptions{}))(t)
	w.start(t, true, func(o *join.Options) { o.Key = key }).awaitPhase(t, join.Joined)
	if _, err := join.KeySecret(w.Cluster.Cluster, w.namespace, "slipway-key", "other").Key(t.Context()); err == nil || !strings.Contains(err.Error(), "no API key in it") {
		t.Errorf("the error is %v", err)
	}
}

// TestRefusals: R32, R33, R34: what the platform refuses becomes a phase with what to
// do, and the agent goes on.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse error
		change func(*join.Options)
		phase  join.Phase
		says   string
	}{
		{"no admin", connect.NewError(connect.CodePermissionDenied, errors.New("you are a user")), nil, join.KeyRejected, "key of an admin"},
		{"name", connect.NewError(connect.CodeAlreadyExists, errors.New("cluster b has it")), nil, join.NameTaken, "prod is taken"},
		{"other", connect.NewError(connect.CodeFailedPrecondition, errors.New("the namespace has one")), nil, join.Refused, "the namespace has one"},
		{"no platform", connect.NewError(connect.CodeUnimplemented, errors.New("404")), nil, join.Refused, "check the address"},
		{"broken", connect.NewError(connect.CodeInternal, errors.New("disk full")), nil, join.Away, "disk full"},
		{"account", nil, func(o *join.Options) { o.AccountID = "ffffffffffffffffffffffff" }, join.Refused, "belongs to the account " + accountID},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.platform.change(func(p *platform) { p.refuse = tt.refuse })
			r := w.start(t, true, func(o *join.Options) {
				if tt.change != nil {
					tt.change(o)
				}
			})
			if status := r.awaitPhase(t, tt.phase); !strings.Contains(status.Message, tt.says) {
				t.Errorf("it says %q", status.Message)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := r.AccessToken(ctx); err == nil {
				t.Error("there is a token")
			}
		})
	}
}

// TestLeadsAgain: a replica that loses its Lease and gets it again goes on with the
// same credential.
func TestLeadsAgain(t *testing.T) {
	w := newWorld(t)
	r := w.start(t, false)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Lead(ctx) }()
		w.platform.awaitBeats(t, 2)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("a term ended with %v", err)
		}
	}
	w.platform.change(func(p *platform) {
		if len(p.registered) != 1 || p.renewals != 2 || p.reused != 0 {
			t.Errorf("%d registrations, %d renewals, %d tokens that were not good", len(p.registered), p.renewals, p.reused)
		}
	})
}
