package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// Phase is the state of a runtime's registration, in one word.
type Phase string

// The phases. Applications are delivered in all of them.
const (
	// Joining is before the first response.
	Joining Phase = "Joining"
	// Joined is when the platform receives heartbeats.
	Joined Phase = "Joined"
	// Away is a platform, or an API server, that does not respond.
	Away Phase = "Away"
	// KeyMissing is an API key that cannot be read, and KeyRejected one that
	// the platform does not accept.
	KeyMissing  Phase = "KeyMissing"
	KeyRejected Phase = "KeyRejected"
	// NameTaken is a name that a runtime in another cluster has.
	NameTaken Phase = "NameTaken"
	// Refused is any other refusal of the platform.
	Refused Phase = "Refused"
	// Revoked is a credential that was revoked at the platform.
	Revoked Phase = "Revoked"
	// Uninstalling and Uninstalled are the end of a runtime.
	Uninstalling Phase = "Uninstalling"
	Uninstalled  Phase = "Uninstalled"
)

// Status is the state of a runtime's registration.
type Status struct {
	Phase Phase
	// Message explains the phase and what to do.
	Message string
	Since   time.Time
}

// problem is an error with the phase that it puts the runtime into.
type problem struct {
	phase Phase
	err   error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

// problemf returns a problem.
func problemf(phase Phase, format string, values ...any) error {
	return &problem{phase, fmt.Errorf(format, values...)}
}

// phaseOf returns the phase of an error; Away for an error without one.
func phaseOf(err error) Phase {
	if known, ok := errors.AsType[*problem](err); ok {
		return known.phase
	}
	return Away
}

// needsAction reports whether a phase ends only after an action of a user.
func (p Phase) needsAction() bool {
	switch p {
	case KeyMissing, KeyRejected, NameTaken, Refused, Revoked, Uninstalled:
		return true
	case Joining, Joined, Away, Uninstalling:
	}
	return false
}

// registrationProblem converts the error of a registration to a problem.
func (m *Membership) registrationProblem(err error) error {
	text := connectMessage(err)
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated:
		return problemf(KeyRejected, "the platform does not take the API key: %s: give the runtime a key that is not revoked or expired", text)
	case connect.CodePermissionDenied:
		return problemf(KeyRejected, "the API key may not register runtimes: %s: give the runtime a key of an admin of the account", text)
	case connect.CodeAlreadyExists:
		return problemf(NameTaken, "the name %s is taken by another runtime of the account: %s: choose another, or delete that one when it is offline", m.options.Runtime, text)
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return problemf(Refused, "the platform refuses the runtime: %s", text)
	case connect.CodeUnimplemented, connect.CodeNotFound:
		return problemf(Refused, "there is no platform at %s that registers runtimes: %s: check the address", m.options.PlatformURL, text)
	}
	return fmt.Errorf("register the runtime at %s: %w", m.options.PlatformURL, err)
}

// connectMessage returns the message of the other side without the code.
func connectMessage(err error) string {
	if connectErr, ok := errors.AsType[*connect.Error](err); ok && connectErr.Message() != "" {
		return connectErr.Message()
	}
	return err.Error()
}

// Status returns the state of the registration.
func (m *Membership) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Revoked reports whether the credential was revoked.
func (m *Membership) Revoked() bool { return m.Status().Phase == Revoked }

// setPhase sets the phase. A new phase is logged and becomes an Event; the same
// phase with another message is neither, as it would repeat with every retry.
func (m *Membership) setPhase(ctx context.Context, phase Phase, message string) {
	m.mu.Lock()
	before := m.status
	if before.Phase == phase && before.Message == message {
		m.mu.Unlock()
		return
	}
	since := before.Since
	if before.Phase != phase {
		since = time.Now()
	}
	m.status = Status{Phase: phase, Message: message, Since: since}
	if phase == Revoked || phase == Uninstalled {
		m.dropAccess()
	}
	m.broadcast()
	m.mu.Unlock()
	m.options.Metrics.phase(phase)
	if before.Phase == phase {
		return // the same trouble in other words
	}
	switch {
	case phase == Joined:
		m.options.Log.Info("joined platform", "platform", m.options.PlatformURL, "runtime", m.options.Runtime)
	case phase.needsAction():
		m.options.Log.Error("not joined to the platform; Applications are still delivered", "phase", string(phase), observe.KeyReason, message)
		m.announce(ctx, phase, message)
	default:
		m.options.Log.Warn("platform membership changed", "phase", string(phase), observe.KeyReason, message)
	}
}

// announce writes an Event about the Secret.
func (m *Membership) announce(ctx context.Context, phase Phase, message string) {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	err := m.options.Cluster.Announce(ctx, m.options.Reporter, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: m.options.Namespace, Name: SecretName},
		Warning:   true, Reason: string(phase), Action: "Join", Note: message, Times: 1,
	})
	if err != nil && ctx.Err() == nil {
		m.options.Log.Debug("cannot write Event", observe.KeyError, err)
	}
}
