package join

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Lead joins the platform and stays joined until the context is done. Only the
// replica that leads runs it, and once at a time. Nothing that the platform says
// or does ends it.
func (m *Membership) Lead(ctx context.Context) error {
	m.lead(true)
	defer m.lead(false)
	pause := retries(m.options.timing.firstPause, m.options.timing.longestPause)
	for ctx.Err() == nil {
		if err := m.join(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			phase := phaseOf(err)
			m.became(ctx, phase, err.Error())
			wait := pause.Next()
			if phase.waitsForPeople() {
				wait = max(wait, pause.Spread(m.options.timing.keyPause))
			}
			m.sleep(ctx, wait, phase.waitsForPeople())
			continue
		}
		pause.Reset()
		m.stay(ctx)
	}
	return nil
}

func (m *Membership) lead(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leading = on
	m.beat = nil
}

// sleep waits; a change of the Secret may end it.
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

// join gets a credential that is fresh and in the Secret.
func (m *Membership) join(ctx context.Context) error {
	if m.pending != nil {
		return m.keep(ctx)
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
	case !stored.fits(&m.options):
		return m.register(ctx, &credential{})
	}
	return m.renew(ctx, stored)
}

// keep stores what was got, and uses it then. Nothing else is asked for before:
// the refresh token in the Secret is the one before, which is good only once more.
func (m *Membership) keep(ctx context.Context) error {
	if err := m.store(ctx, m.pending); err != nil {
		return err
	}
	m.adopt(m.pending)
	m.pending = nil
	return nil
}

// registerWithNewKey registers a runtime that is out, when somebody has given it
// another key.
func (m *Membership) registerWithNewKey(ctx context.Context, stored *credential, phase Phase, message string) error {
	key, err := m.options.Key.Key(ctx)
	if err != nil || fingerprint(key) == stored.KeyPrint {
		return problemf(phase, "%s", message)
	}
	return m.register(ctx, &credential{})
}

func (m *Membership) revokedMessage() string {
	return fmt.Sprintf("somebody has revoked the runtime's credential at the platform, and Applications are delivered all the same: to join again give it a new API key, or delete the Secret %s/%s to use the present one",
		m.options.Namespace, SecretName)
}

// register gets the first credential. A registration whose answer was lost is
// repeated: the platform knows the cluster by its id.
func (m *Membership) register(ctx context.Context, base *credential) error {
	key, err := m.options.Key.Key(ctx)
	if err != nil {
		return &problem{KeyMissing, err}
	}
	request, err := m.registration(ctx)
	if err != nil {
		return err
	}
	asked := connect.NewRequest(request)
	asked.Header().Set("Authorization", "Bearer "+key.Reveal())
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	sent := time.Now()
	answer, err := m.runtimes.RegisterRuntime(calling, asked)
	m.options.Metrics.renewal("register", err)
	if err != nil {
		return m.registrationProblem(err)
	}
	next := *base
	next.Platform, next.Runtime, next.KeyPrint = m.options.PlatformURL, m.options.Runtime, fingerprint(key)
	next.RuntimeID, next.AccountID = answer.Msg.GetRuntime().GetId(), answer.Msg.GetAccountId()
	got, err := next.with(answer.Msg.GetCredential())
	if err != nil {
		return &problem{Refused, err}
	}
	if wanted := m.options.AccountID; wanted != "" && wanted != got.AccountID {
		m.giveBack(ctx, got)
		return problemf(Refused, "the API key belongs to the account %s, and the runtime is configured for %s: give it a key of that account, or correct the account", got.AccountID, wanted)
	}
	m.got(got, sent, answer.Header())
	return m.keep(ctx)
}

// giveBack unregisters a runtime in the wrong account.
func (m *Membership) giveBack(ctx context.Context, got *credential) {
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	asked := connect.NewRequest(&platformv1.UnregisterRequest{})
	asked.Header().Set("Authorization", "Bearer "+got.Access.Reveal())
	if _, err := m.renewals.Unregister(calling, asked); err != nil {
		m.options.Log.Warn("the runtime could not be taken back from the wrong account: delete it there", "account", got.AccountID)
	}
}

// registration is what the platform is told of a new runtime.
func (m *Membership) registration(ctx context.Context) (*platformv1.RegisterRuntimeRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	system, err := m.options.Cluster.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read which cluster this is, by the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	o := &m.options
	return &platformv1.RegisterRuntimeRequest{
		Name: o.Runtime, Namespace: o.Namespace, Cluster: o.ClusterName, ClusterUid: string(system.UID), KubernetesVersion: m.kubernetesVersion(),
		Version: o.Version, ChartVersion: o.ChartVersion, AccessMode: o.AccessMode, AccessUrl: o.AccessURL, IngressClass: o.IngressClass,
		ConfigurationRuntime: o.ConfigurationRuntime, ComponentNames: o.ComponentNames,
	}, nil
}

// kubernetesVersion is that of the API server, or empty when it does not say.
func (m *Membership) kubernetesVersion() string {
	version, err := m.options.Cluster.Client.Discovery().ServerVersion()
	if err != nil {
		return ""
	}
	return version.GitVersion
}

// renew gets the next credential.
func (m *Membership) renew(ctx context.Context, present *credential) error {
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	sent := time.Now()
	answer, err := m.renewals.RenewCredential(calling, connect.NewRequest(&platformv1.RenewCredentialRequest{
		RefreshToken: present.Refresh.Reveal(), Version: m.options.Version,
	}))
	m.options.Metrics.renewal("renew", err)
	switch code := connect.CodeOf(err); {
	case present.Uninstall == uninstallAsked && forgotten(code):
		return m.finishUninstall(ctx, present) // the answer to our leave was lost
	case code == connect.CodePermissionDenied:
		out := present.without()
		out.Revoked = true
		if err := m.store(ctx, out); err != nil {
			return err
		}
		return m.registerWithNewKey(ctx, out, Revoked, m.revokedMessage())
	case code == connect.CodeUnauthenticated, code == connect.CodeNotFound:
		// The platform does not know the credential: its database is another one,
		// or an older one. The key says who we are.
		return m.register(ctx, &credential{})
	}
	if err != nil {
		return fmt.Errorf("renew the credential at %s: %w", m.options.PlatformURL, err)
	}
	got, err := present.with(answer.Msg.GetCredential())
	if err != nil {
		return &problem{Refused, err}
	}
	got.Uninstall = present.Uninstall
	m.got(got, sent, answer.Header())
	return m.keep(ctx)
}

// Tokens that live shorter than this, or longer than a day, are a clock that is
// wrong.
const shortestLife = 2 * time.Second

// clockTolerance is what clocks may differ by before somebody is told.
const clockTolerance = 30 * time.Second

// got notes a credential and when to renew it: at half of its life, which only the
// platform's clock can tell.
func (m *Membership) got(c *credential, sent time.Time, header http.Header) {
	platform := time.Now()
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		// The header has whole seconds, and was written between sent and now.
		skew := at.Sub(sent.Truncate(time.Second))
		m.options.Metrics.skew(skew)
		if skew.Abs() > clockTolerance {
			m.options.Log.Warn("the clocks of this machine and of the platform differ: set them by NTP", "difference", skew.Round(time.Second).String())
		}
		platform = at
	}
	life := min(max(c.AccessExpires.Sub(platform), shortestLife), m.options.timing.longestLife)
	m.pending = c
	m.renewed = time.Now()
	m.renewAt = m.renewed.Add(life/2 - time.Duration(rand.Int64N(int64(life/10)+1)))
}

// retries counts failures in a row. Half of each delay is random, so that many
// agents do not come back at once.
func retries(first, longest time.Duration) backoff.Retries {
	return backoff.Retries{Policy: backoff.Policy{First: first, Longest: longest, JitterDown: 0.5}}
}
