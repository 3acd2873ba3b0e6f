package join

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Lead joins the platform and stays joined until the context is done. Only the
// leader runs it, and once at a time. No response of the platform ends it.
func (m *Membership) Lead(ctx context.Context) error {
	m.lead(true)
	defer m.lead(false)
	pause := newRetries(m.options.timing.firstBackoff, m.options.timing.maxBackoff)
	for ctx.Err() == nil {
		if err := m.join(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			phase := phaseOf(err)
			m.setPhase(ctx, phase, err.Error())
			wait := pause.Next()
			// A user has to act first, so retries at the usual pace would only
			// load the platform. A change of the Secret ends the wait.
			if phase.needsAction() {
				wait = max(wait, pause.Spread(m.options.timing.keyInterval))
			}
			m.sleep(ctx, wait, phase.needsAction())
			continue
		}
		pause.Reset()
		m.stay(ctx)
	}
	return nil
}

// lead sets whether this replica leads: the leader ignores the Secret's events,
// which are its own writes.
func (m *Membership) lead(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leading = on
	m.beat = nil
}

// sleep waits for a duration. If it is wakeable, a change of the Secret ends
// it: a new API key should be tried at once.
func (m *Membership) sleep(ctx context.Context, wait time.Duration, wakeable bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	wake := m.wake
	if !wakeable {
		wake = nil
	}
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// join gets a fresh credential and stores it in the Secret. A credential that
// was received and not stored comes first; then the stored one is renewed,
// unless it is unusable or belongs to another platform or runtime.
func (m *Membership) join(ctx context.Context) error {
	if m.pending != nil {
		return m.persist(ctx)
	}
	stored, err := m.load(ctx)
	if err != nil {
		return err
	}
	switch {
	case stored == nil:
		return m.register(ctx, &credential{})
	case stored.Uninstall == uninstallDone:
		return m.registerWithNewKey(ctx, stored, Uninstalled, m.uninstalledMessage())
	case stored.Revoked:
		return m.registerWithNewKey(ctx, stored, Revoked, m.revokedMessage())
	case !stored.matches(&m.options):
		return m.register(ctx, &credential{})
	}
	return m.renew(ctx, stored)
}

// persist stores a received credential and then uses it. Nothing else is
// requested before: the refresh token in the Secret is the previous one, which
// is valid only once more.
func (m *Membership) persist(ctx context.Context) error {
	if err := m.store(ctx, m.pending); err != nil {
		return err
	}
	m.adopt(m.pending)
	m.pending = nil
	return nil
}

// registerWithNewKey registers a revoked or uninstalled runtime again if it has
// another API key now.
func (m *Membership) registerWithNewKey(ctx context.Context, stored *credential, phase Phase, message string) error {
	key, err := m.options.Key.Key(ctx)
	if err != nil || fingerprint(key) == stored.KeyPrint {
		return problemf(phase, "%s", message)
	}
	return m.register(ctx, &credential{})
}

// revokedMessage explains how to register a revoked runtime again.
func (m *Membership) revokedMessage() string {
	return fmt.Sprintf("the runtime's credential was revoked at the platform; the runtime continues to deliver Applications: to join again, give it a new API key, or delete the Secret %s/%s to use the present one",
		m.options.Namespace, SecretName)
}

// register gets the first credential. Registrations whose response was lost are
// repeated: the platform recognizes the cluster by its id.
func (m *Membership) register(ctx context.Context, base *credential) error {
	key, err := m.options.Key.Key(ctx)
	if err != nil {
		return &problem{KeyMissing, err}
	}
	request, err := m.registration(ctx)
	if err != nil {
		return err
	}
	call := connect.NewRequest(request)
	call.Header().Set("Authorization", "Bearer "+key.Reveal())
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	sent := time.Now()
	response, err := m.runtimes.RegisterRuntime(calling, call)
	m.options.Metrics.renewal("register", err)
	if err != nil {
		return m.registrationProblem(err)
	}
	next := *base
	next.Platform, next.Runtime, next.KeyPrint = m.options.PlatformURL, m.options.Runtime, fingerprint(key)
	next.RuntimeID, next.AccountID = response.Msg.GetRuntime().GetId(), response.Msg.GetAccountId()
	got, err := next.merge(response.Msg.GetCredential())
	if err != nil {
		return &problem{Refused, err}
	}
	// The registration is undone, so that the runtime does not appear in an
	// account that it was not meant for.
	if wanted := m.options.AccountID; wanted != "" && wanted != got.AccountID {
		m.unregister(ctx, got)
		return problemf(Refused, "the API key belongs to the account %s, and the runtime is configured for %s: give it a key of that account, or correct the account", got.AccountID, wanted)
	}
	m.received(got, sent, response.Header())
	return m.persist(ctx)
}

// unregister removes a runtime that was registered in the wrong account.
func (m *Membership) unregister(ctx context.Context, got *credential) {
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	call := connect.NewRequest(&platformv1.UnregisterRequest{})
	call.Header().Set("Authorization", "Bearer "+got.Access.Reveal())
	if _, err := m.renewals.Unregister(calling, call); err != nil {
		m.options.Log.Warn("cannot unregister the runtime from the wrong account: delete it there", "account", got.AccountID)
	}
}

// registration describes a new runtime.
func (m *Membership) registration(ctx context.Context) (*platformv1.RegisterRuntimeRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	uid, err := m.options.Cluster.UID(ctx)
	if err != nil {
		return nil, err
	}
	o := &m.options
	return &platformv1.RegisterRuntimeRequest{
		Name: o.Runtime, Namespace: o.Namespace, Cluster: o.ClusterName, ClusterUid: string(uid), KubernetesVersion: m.kubernetesVersion(),
		Version: o.Version, ChartVersion: o.ChartVersion, AccessMode: o.AccessMode, AccessUrl: o.AccessURL, IngressClass: o.IngressClass,
		ConfigurationRuntime: o.ConfigurationRuntime, ComponentNames: o.ComponentNames,
	}, nil
}

// kubernetesVersion returns the version of the API server; empty if it cannot
// be read.
func (m *Membership) kubernetesVersion() string {
	version, err := m.options.Cluster.Client.Discovery().ServerVersion()
	if err != nil {
		return ""
	}
	return version.GitVersion
}

// renew gets the next credential with the refresh token.
func (m *Membership) renew(ctx context.Context, present *credential) error {
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	sent := time.Now()
	response, err := m.renewals.RenewCredential(calling, connect.NewRequest(&platformv1.RenewCredentialRequest{
		RefreshToken: present.Refresh.Reveal(), Version: m.options.Version,
	}))
	m.options.Metrics.renewal("renew", err)
	switch code := connect.CodeOf(err); {
	case present.Uninstall == uninstallRequested && isUnregistered(code):
		return m.finishUninstall(ctx, present) // the response to our leave was lost
	case code == connect.CodePermissionDenied:
		out := present.redacted()
		out.Revoked = true
		if err := m.store(ctx, out); err != nil {
			return err
		}
		return m.registerWithNewKey(ctx, out, Revoked, m.revokedMessage())
	case code == connect.CodeUnauthenticated, code == connect.CodeNotFound:
		// The platform does not know the credential: its database is another one,
		// or an older one. The key identifies the runtime.
		return m.register(ctx, &credential{})
	}
	if err != nil {
		return fmt.Errorf("renew the credential at %s: %w", m.options.PlatformURL, err)
	}
	got, err := present.merge(response.Msg.GetCredential())
	if err != nil {
		return &problem{Refused, err}
	}
	got.Uninstall = present.Uninstall
	m.received(got, sent, response.Header())
	return m.persist(ctx)
}

// minTokenLife is the shortest plausible lifetime of a token. A shorter one, or
// one of more than a day, means that a clock is wrong.
const minTokenLife = 2 * time.Second

// clockTolerance is the difference of clocks that is not reported.
const clockTolerance = 30 * time.Second

// received keeps a credential until it is stored, and schedules its renewal at
// half of its lifetime. The lifetime is computed with the platform's clock, as
// the local one may be wrong.
func (m *Membership) received(c *credential, sent time.Time, header http.Header) {
	platform := time.Now()
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		// The header has whole seconds, and was written between sent and now.
		skew := at.Sub(sent.Truncate(time.Second))
		m.options.Metrics.clock.Set(skew.Seconds())
		if skew.Abs() > clockTolerance {
			m.options.Log.Warn("clocks of this machine and the platform differ: set them by NTP", "difference", skew.Round(time.Second).String())
		}
		platform = at
	}
	life := min(max(c.AccessExpires.Sub(platform), minTokenLife), m.options.timing.maxTokenLife)
	m.pending = c
	m.renewed = time.Now()
	m.renewAt = m.renewed.Add(life/2 - time.Duration(rand.Int64N(int64(life/10)+1)))
}

// newRetries returns a backoff. Half of each delay is random, so that many
// agents do not reconnect at once.
func newRetries(first, longest time.Duration) backoff.Retries {
	return backoff.Retries{Policy: backoff.Policy{First: first, Longest: longest, JitterDown: 0.5}}
}
