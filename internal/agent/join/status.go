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

// Phase is how a runtime and its platform stand, in one word.
type Phase string

// The phases. Applications are delivered in all of them.
const (
	// Joining is before the first answer.
	Joining Phase = "Joining"
	// Joined is when the platform hears from the runtime.
	Joined Phase = "Joined"
	// Away is a platform, or an API server, that does not answer.
	Away Phase = "Away"
	// KeyMissing is an API key that cannot be read, and KeyRejected one that the
	// platform does not take.
	KeyMissing  Phase = "KeyMissing"
	KeyRejected Phase = "KeyRejected"
	// NameTaken is a name that a runtime in another cluster has.
	NameTaken Phase = "NameTaken"
	// Refused is anything else that the platform says no to.
	Refused Phase = "Refused"
	// Revoked is a credential that somebody has ended.
	Revoked Phase = "Revoked"
	// Uninstalling and Uninstalled are what an uninstall ends in.
	Uninstalling Phase = "Uninstalling"
	Uninstalled  Phase = "Uninstalled"
)

// Status is how a runtime and its platform stand.
type Status struct {
	Phase Phase
	// Message says why, and what to do.
	Message string
	Since   time.Time
}

// problem is an error with its phase.
type problem struct {
	phase Phase
	err   error
}

func (p *problem) Error() string { return p.err.Error() }
func (p *problem) Unwrap() error { return p.err }

func problemf(phase Phase, format string, values ...any) error {
	return &problem{phase, fmt.Errorf(format, values...)}
}

// phaseOf is the phase that an error means; what has none is somebody away.
func phaseOf(err error) Phase {
	if known, ok := errors.AsType[*problem](err); ok {
		return known.phase
	}
	return Away
}

// waitsForPeople reports whether a phase ends only when somebody does something.
func (p Phase) waitsForPeople() bool {
	switch p {
	case KeyMissing, KeyRejected, NameTaken, Refused, Revoked, Uninstalled:
		return true
	case Joining, Joined, Away, Uninstalling:
	}
	return false
}

// registrationProblem is what the answer to a registration means.
func (m *Membership) registrationProblem(err error) error {
	said := connectMessage(err)
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated:
		return problemf(KeyRejected, "the platform does not take the API key: %s: give the runtime a key that is not revoked or expired", said)
	case connect.CodePermissionDenied:
		return problemf(KeyRejected, "the API key may not register runtimes: %s: give the runtime a key of an admin of the account", said)
	case connect.CodeAlreadyExists:
		return problemf(NameTaken, "the name %s is taken by another runtime of the account: %s: choose another, or delete that one when it is offline", m.options.Runtime, said)
	case connect.CodeInvalidArgument, connect.CodeFailedPrecondition, connect.CodeOutOfRange:
		return problemf(Refused, "the platform refuses the runtime: %s", said)
	case connect.CodeUnimplemented, connect.CodeNotFound:
		return problemf(Refused, "there is no platform at %s that registers runtimes: %s: check the address", m.options.PlatformURL, said)
	}
	return fmt.Errorf("register the runtime at %s: %w", m.options.PlatformURL, err)
}

// connectMessage is what the other side said, without the code.
func connectMessage(err error) string {
	if said, ok := errors.AsType[*connect.Error](err); ok && said.Message() != "" {
		return said.Message()
	}
	return err.Error()
}

// Status is how the runtime and its platform stand.
func (m *Membership) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Revoked reports whether the credential was revoked.
func (m *Membership) Revoked() bool { return m.Status().Phase == Revoked }

// became notes a phase, and tells people of a new one.
func (m *Membership) became(ctx context.Context, phase Phase, message string) {
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
		m.options.Log.Info("the runtime has joined the platform", "platform", m.options.PlatformURL, "runtime", m.options.Runtime)
	case phase.waitsForPeople():
		m.options.Log.Error("the runtime is not joined to the platform; Applications are delivered all the same", "phase", string(phase), observe.KeyReason, message)
		m.announce(ctx, phase, message)
	default:
		m.options.Log.Warn("the runtime and the platform", "phase", string(phase), observe.KeyReason, message)
	}
}

// announce makes it an Event about the Secret.
func (m *Membership) announce(ctx context.Context, phase Phase, message string) {
	ctx, cancel := context.WithTimeout(ctx, m.options.timing.request)
	defer cancel()
	err := m.options.Cluster.Announce(ctx, m.options.Reporter, kube.Notice{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: m.options.Namespace, Name: SecretName},
		Warning:   true, Reason: string(phase), Action: "Join", Note: message, Times: 1,
	})
	if err != nil && ctx.Err() == nil {
		m.options.Log.Debug("the Event was not written", observe.KeyError, err)
	}
}
