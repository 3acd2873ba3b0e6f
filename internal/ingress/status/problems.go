package status

import (
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/ingress/engine"
)

// The errors of a port, in the form that Kubernetes has for those of a vendor.
// They say why an Ingress is not served there as it is written. A port has one,
// the first of these that is true.
const (
	// ErrorRefused: something of the Ingress is refused; its Events say what.
	ErrorRefused = errorPrefix + "Refused"
	// ErrorCertificateNotReady: a certificate is missing, broken, or out of date.
	ErrorCertificateNotReady = errorPrefix + "CertificateNotReady"
	// ErrorNoEndpoints: a Service is missing or has no ready endpoint.
	ErrorNoEndpoints = errorPrefix + "NoEndpoints"

	errorPrefix = "slipway.dev/"
)

const (
	// degradedDelay is how long endpoints or a certificate may be away before that
	// is told, and incompletePatience how long any other object may be.
	degradedDelay   = 5 * time.Second
	incompleteDelay = 10 * time.Second
	// problemInterval is the time between two troubles that are told of one Ingress.
	// What is refused does not wait for it, and neither does what got better.
	problemInterval = 30 * time.Second
)

// problem is one way of not being served.
type problem uint8

const (
	problemRefused problem = iota
	problemIncomplete
	problemCertificate
	problemEndpoints
	problemCount
)

func (a problem) grace() time.Duration {
	switch a {
	case problemRefused:
		return 0
	case problemIncomplete:
		return incompleteDelay
	default:
		return degradedDelay
	}
}

// portError is the error that tells of it.
func (a problem) portError() string {
	switch a {
	case problemCertificate:
		return ErrorCertificateNotReady
	case problemEndpoints:
		return ErrorNoEndpoints
	default:
		return ErrorRefused
	}
}

func (a problem) in(condition engine.Condition) bool {
	switch a {
	case problemRefused:
		return condition.Refused
	case problemIncomplete:
		return condition.Incomplete
	case problemCertificate:
		return condition.CertificateNotReady
	default:
		return condition.NoEndpoints
	}
}

// problems is what is wrong with an Ingress, since when, and when each ailment was
// last made known.
type problems struct {
	condition engine.Condition
	since     [problemCount]time.Time
	reported  [problemCount]time.Time
}

// observe takes over what is wrong now.
func (r *statusRecord) observe(condition engine.Condition, now time.Time) {
	if r.problems == nil {
		if condition.Healthy() {
			return
		}
		r.problems = &problems{}
	}
	t := r.problems
	recent := false
	for a := range problemCount {
		switch had := a.in(t.condition); {
		case !a.in(condition):
			t.since[a] = time.Time{}
		case !had:
			t.since[a] = now
		}
		recent = recent || now.Sub(t.reported[a]) < problemInterval
	}
	t.condition = condition
	if condition.Healthy() && !recent {
		r.problems = nil
	}
}

// markReported notes which ailments a write makes known.
func (r *statusRecord) markReported(entries []addressEntry, now time.Time) {
	if r.problems == nil {
		return
	}
	for a := range problemCount {
		if text := a.portError(); a.in(r.problems.condition) && hasPortError(entries, text) && !hasPortError(r.seen, text) {
			r.problems.reported[a] = now
		}
	}
}

// portErrors are those of the plain port and of the encrypted ones; empty is
// none.
type portErrors struct{ plain, encrypted string }

// statusDecision is what to tell of an Ingress at this moment.
type statusDecision struct {
	errors portErrors
	// waits says that something is wrong that is not told yet, and rest for how
	// long.
	waits bool
	rest  time.Duration
}

// add puts an ailment behind those that are worse.
func (d *statusDecision) add(a problem, encryptedOnly bool) {
	if d.errors.encrypted == "" {
		d.errors.encrypted = a.portError()
	}
	if d.errors.plain == "" && a != problemCertificate && !encryptedOnly {
		d.errors.plain = a.portError()
	}
}

// decide says what of the trouble is told. What the status says already goes
// on being said, and anything else has to last for a while first. But a status
// that says that something is wrong never says in between that all is well.
func (r *statusRecord) decide(now time.Time) statusDecision {
	var d, all statusDecision
	if r.problems == nil {
		return d
	}
	condition := r.problems.condition
	for a := range problemCount {
		if !a.in(condition) {
			continue
		}
		all.add(a, condition.EncryptedOnly)
		rest := r.problems.due(a).Sub(now)
		if rest <= 0 || hasPortError(r.seen, a.portError()) {
			d.add(a, condition.EncryptedOnly)
			continue
		}
		if !d.waits || rest < d.rest {
			d.rest = rest
		}
		d.waits = true
	}
	if d.waits && d.errors.encrypted == "" && slices.ContainsFunc(r.seen, hasOurError) {
		return all
	}
	return d
}

// due is when an ailment may be told.
func (t *problems) due(a problem) time.Time {
	due := t.since[a].Add(a.grace())
	if a == problemRefused || t.reported[a].IsZero() {
		return due
	}
	if paused := t.reported[a].Add(problemInterval); paused.After(due) {
		return paused
	}
	return due
}

// hasPortError reports whether a status has an error.
func hasPortError(entries []addressEntry, problem string) bool {
	return slices.ContainsFunc(entries, func(entry addressEntry) bool {
		return slices.ContainsFunc(entry.Ports, func(port portEntry) bool { return errorOf(port) == problem })
	})
}

// hasOurError reports whether an address has an error of ours.
func hasOurError(entry addressEntry) bool { return slices.ContainsFunc(entry.Ports, isOurError) }

func isOurError(port portEntry) bool { return strings.HasPrefix(errorOf(port), errorPrefix) }

// The ports that are told about at an address that comes without any.
const (
	plainPort     = 80
	encryptedPort = 443
)

// withErrors are the addresses with errors at their ports. An address without ports
// gets those that have an error, so what is well looks as it always did. An error
// of somebody else, such as of the load balancer, stays.
func (p *published) withErrors(errors portErrors) []addressEntry {
	if errors.encrypted == "" {
		return p.addresses
	}
	entries := canonical(p.addresses)
	for i := range entries {
		if len(entries[i].Ports) == 0 {
			entries[i].Ports = newPorts(errors)
			continue
		}
		p.setPortErrors(entries[i].Ports, errors)
	}
	return entries
}

func newPorts(errors portErrors) []portEntry {
	var ports []portEntry
	if errors.plain != "" {
		ports = append(ports, portEntry{Port: plainPort, Protocol: protocolTCP, Error: &errors.plain})
	}
	return append(ports, portEntry{Port: encryptedPort, Protocol: protocolTCP, Error: &errors.encrypted})
}

// setPortErrors puts the errors at ports. Where all are plain these have the other one
// too: it must be somewhere.
func (p *published) setPortErrors(ports []portEntry, errors portErrors) {
	isPlain := func(port portEntry) bool { return port.Port == p.plain }
	alone := !slices.ContainsFunc(ports, func(port portEntry) bool { return !isPlain(port) })
	for i := range ports {
		text := errors.encrypted
		if isPlain(ports[i]) && !alone {
			text = errors.plain
		}
		if text != "" && ports[i].Error == nil {
			ports[i].Error = &text
		}
	}
}

// sameWithoutErrors compares a status with the addresses that are published, without
// the errors that we put there.
func sameWithoutErrors(seen, addresses []addressEntry) bool {
	bare := make([]addressEntry, 0, len(seen))
	for i, entry := range seen {
		entry.Ports = slices.Clone(entry.Ports)
		if len(seen) == len(addresses) && len(addresses[i].Ports) == 0 {
			entry.Ports = slices.DeleteFunc(entry.Ports, isOurError)
		}
		for j := range entry.Ports {
			if isOurError(entry.Ports[j]) {
				entry.Ports[j].Error = nil
			}
		}
		bare = append(bare, entry)
	}
	return sameAddresses(bare, addresses)
}
