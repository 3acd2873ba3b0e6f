package status

import (
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/ingress/engine"
)

// The errors of a port, in the form that Kubernetes prescribes for vendors. They
// are the reason why an Ingress is not served there as it is written. A port has
// one, the first of these that applies.
const (
	// ErrorRefused: something of the Ingress is refused; see its Events.
	ErrorRefused = errorPrefix + "Refused"
	// ErrorCertificateNotReady: a certificate is missing, broken, or out of date.
	ErrorCertificateNotReady = errorPrefix + "CertificateNotReady"
	// ErrorNoEndpoints: a Service is missing or has no ready endpoint.
	ErrorNoEndpoints = errorPrefix + "NoEndpoints"

	errorPrefix = "slipway.dev/"
)

const (
	// degradedDelay is how long endpoints or a certificate may be missing before
	// the status reports it, and incompleteDelay how long any other object may.
	degradedDelay   = 5 * time.Second
	incompleteDelay = 10 * time.Second
	// problemInterval is the least time between two reports of a problem of one
	// Ingress. Refusals do not wait for it, and neither do recoveries.
	problemInterval = 30 * time.Second
)

// problem is one reason of not being served, the worst first.
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

// portError returns the port error that reports the problem.
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

// problems are the problems of an Ingress: since when each exists, and when the
// status last began to report it.
type problems struct {
	condition engine.Condition
	since     [problemCount]time.Time
	reported  [problemCount]time.Time
}

// observe updates the problems from the condition of the Ingress. They are dropped
// when it is healthy and no report is recent enough to delay another.
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

// markReported records which problems a write newly reports.
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

// portErrors are the errors of the plain port and of the encrypted ones; empty
// means none.
type portErrors struct{ plain, encrypted string }

// statusDecision is what the status of an Ingress reports at this moment.
type statusDecision struct {
	errors portErrors
	// waits is set while a problem exists that is not reported yet, and rest is
	// for how long.
	waits bool
	rest  time.Duration
}

// add adds a problem; a worse one that was added before wins.
func (d *statusDecision) add(a problem, encryptedOnly bool) {
	if d.errors.encrypted == "" {
		d.errors.encrypted = a.portError()
	}
	if d.errors.plain == "" && a != problemCertificate && !encryptedOnly {
		d.errors.plain = a.portError()
	}
}

// decide chooses the problems to report. Those that the status reports already
// stay, and others have to last for their grace first. A status with a problem
// does not become healthy while another problem waits: then all are reported.
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

// due returns when a problem may be reported.
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

// hasPortError reports whether a status has an error at any port.
func hasPortError(entries []addressEntry, problem string) bool {
	return slices.ContainsFunc(entries, func(entry addressEntry) bool {
		return slices.ContainsFunc(entry.Ports, func(port portEntry) bool { return errorOf(port) == problem })
	})
}

// hasOurError reports whether an address has an error that we wrote.
func hasOurError(entry addressEntry) bool { return slices.ContainsFunc(entry.Ports, isOurError) }

func isOurError(port portEntry) bool { return strings.HasPrefix(errorOf(port), errorPrefix) }

// The ports of errors at an address that comes without ports.
const (
	plainPort     = 80
	encryptedPort = 443
)

// withErrors returns the addresses with errors at their ports. An address without
// ports gets only those with an error, so a healthy status has none. Errors of
// others, such as of the load balancer, stay.
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

// setPortErrors sets the errors of ports. If all ports are plain they get the error
// of the encrypted ones, which would be lost otherwise.
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

// sameWithoutErrors reports whether a status has the published addresses, apart
// from the errors that we wrote.
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
