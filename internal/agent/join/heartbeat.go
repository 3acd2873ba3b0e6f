package join

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// The platform may request heartbeat intervals between these.
const (
	// The platform may ask for heartbeats between these.
	fastestHeartbeat = time.Second
	slowestHeartbeat = 5 * time.Minute
	// soonDelay collects changes of the state before a heartbeat reports them.
	soonDelay = 500 * time.Millisecond
)

// stay sends heartbeats and renews the credential until a new registration is
// needed or the context is done. One goroutine does both, so that a renewal
// never runs beside a heartbeat with the old token.
func (m *Membership) stay(ctx context.Context) {
	failures := newRetries(m.options.timing.firstBackoff, min(m.options.timing.maxBackoff, m.options.timing.heartbeat))
	renewals := newRetries(m.options.timing.firstBackoff, m.options.timing.maxBackoff)
	beat := time.NewTimer(0)
	defer beat.Stop()
	renew := time.NewTimer(time.Until(m.renewAt))
	defer renew.Stop()
	// soon is set while the next heartbeat was brought forward: further changes
	// must not put it off.
	soon := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.beatSoon:
			if !soon {
				soon = true
				beat.Reset(soonDelay)
			}
		case <-m.renewNow:
			// A rejected token requests a renewal. One that was just renewed
			// cannot be fixed by another.
			if time.Since(m.renewed) > m.options.timing.firstBackoff {
				renew.Reset(0)
			}
		case <-renew.C:
			if err := m.join(ctx); err != nil {
				phase := phaseOf(err)
				// An unreachable platform is retried here; any other error
				// needs a new registration, which Lead does.
				if phase != Away || ctx.Err() != nil {
					m.setPhase(ctx, phase, err.Error())
					return
				}
				m.options.Log.Warn("cannot renew credential; retrying", "error", err)
				renew.Reset(renewals.Next())
				continue
			}
			renewals.Reset()
			renew.Reset(time.Until(m.renewAt))
		case <-beat.C:
			next, goOn := m.heartbeat(ctx, &failures)
			if !goOn {
				return
			}
			beat.Reset(next)
			soon = false
		}
	}
}

// heartbeat sends one heartbeat and applies the response. It returns when the
// next one is due, and false when the runtime must stop sending them.
func (m *Membership) heartbeat(ctx context.Context, failures *backoff.Retries) (next time.Duration, goOn bool) {
	full, err := m.describe(ctx)
	if err != nil {
		// The heartbeat itself matters more than its content.
		m.options.Log.Warn("cannot read runtime state; sending a shorter heartbeat", "error", err)
	}
	request := full
	if m.beat != nil && proto.Equal(m.beat, full) {
		request = &platformv1.HeartbeatRequest{Unchanged: true}
	}
	calling, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	received, err := m.agent.Heartbeat(calling, connect.NewRequest(request))
	m.options.Metrics.heartbeat(err)
	if ctx.Err() != nil {
		return 0, false
	}
	if err != nil {
		m.setPhase(ctx, Away, fmt.Sprintf("the platform at %s does not take heartbeats: %s", m.options.PlatformURL, connectMessage(err)))
		return failures.Next(), true
	}
	failures.Reset()
	m.beat = full
	response := received.Msg
	if response.GetSendAll() {
		m.beat = nil
		if request.GetUnchanged() {
			return 0, true
		}
	}
	m.setPhase(ctx, Joined, "the platform hears from the runtime")
	m.applyResponse(ctx, response)
	if response.GetUninstall() || m.credential().Uninstall == uninstallRequested {
		return m.uninstallNow(ctx, response.GetCleanSharedRepository(), failures)
	}
	if interval := response.GetNext().AsDuration(); interval > 0 {
		return min(max(interval, fastestHeartbeat), slowestHeartbeat), true
	}
	return m.options.timing.heartbeat, true
}

// describe returns the current state of the runtime.
func (m *Membership) describe(ctx context.Context) (*platformv1.HeartbeatRequest, error) {
	state := &platformv1.HeartbeatRequest{}
	var err error
	if m.options.State != nil {
		reading, cancel := context.WithTimeout(ctx, m.options.timing.request)
		defer cancel()
		message, failed := m.options.State.Heartbeat(reading)
		if err = failed; err == nil && message != nil {
			state = proto.CloneOf(message)
		}
	}
	o := &m.options
	state.Version, state.ChartVersion, state.Unchanged = o.Version, o.ChartVersion, false
	state.AccessMode, state.AccessUrl, state.IngressClass = o.AccessMode, o.AccessURL, o.IngressClass
	if state.KubernetesVersion == "" && m.beat != nil {
		state.KubernetesVersion = m.beat.GetKubernetesVersion()
	}
	if state.KubernetesVersion == "" {
		state.KubernetesVersion = m.kubernetesVersion()
	}
	return state, err
}

// applyResponse stores the settings in a heartbeat's response. Other replicas
// read them from the Secret.
func (m *Membership) applyResponse(ctx context.Context, response *platformv1.HeartbeatResponse) {
	m.mu.Lock()
	m.configuration = response.GetConfigurationRuntime()
	m.mu.Unlock()
	present := m.credential()
	next := *present
	if keys := response.GetPlatformKeys(); keys != "" {
		next.PlatformKeys = keys
	}
	if urls := response.GetTunnelUrls(); len(urls) > 0 {
		next.TunnelURLs = urls
	}
	if git := response.GetGitSettings(); git != nil {
		next.Git = git
	}
	if next.PlatformKeys == present.PlatformKeys && fmt.Sprint(next.TunnelURLs) == fmt.Sprint(present.TunnelURLs) && proto.Equal(next.Git, present.Git) {
		return
	}
	// Public settings may be used before they are stored.
	m.adopt(&next)
	if m.pending != nil {
		return // the next store has it
	}
	if err := m.store(ctx, &next); err != nil && ctx.Err() == nil {
		m.options.Log.Warn("cannot store platform settings; retrying with the next renewal", "error", err)
	}
}
