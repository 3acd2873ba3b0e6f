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
	// losePatience is how long endpoints or a certificate may be away before that
	// is told, and incompletePatience how long any other object may be.
	losePatience       = 5 * time.Second
	incompletePatience = 10 * time.Second
	// troublePause is the time between two troubles that are told of one Ingress.
	// What is refused does not wait for it, and neither does what got better.
	troublePause = 30 * time.Second
)

// ailment is one way of not being served.
type ailment uint8

const (
	ailRefused ailment = iota
	ailIncomplete
	ailUncertified
	ailUnanswered
	ailments
)

func (a ailment) patience() time.Duration {
	switch a {
	case ailRefused:
		return 0
	case ailIncomplete:
		return incompletePatience
	default:
		return losePatience
	}
}

// problem is the error that tells of it.
func (a ailment) problem() string {
	switch a {
	case ailUncertified:
		return ErrorCertificateNotReady
	case ailUnanswered:
		return ErrorNoEndpoints
	default:
		return ErrorRefused
	}
}

func (a ailment) in(condition engine.Condition) bool {
	switch a {
	case ailRefused:
		return condition.Refused
	case ailIncomplete:
		return condition.Incomplete
	case ailUncertified:
		return condition.Uncertified
	default:
		return condition.Unanswered
	}
}

// trouble is what is wrong with an Ingress, since when, and when each ailment was
// last made known.
type trouble struct {
	condition engine.Condition
	since     [ailments]time.Time
	told      [ailments]time.Time
}

// suffer takes over what is wrong now.
func (r *record) suffer(condition engine.Condition, now time.Time) {
	if r.trouble == nil {
		if condition.Sound() {
			return
		}
		r.trouble = &trouble{}
	}
	t := r.trouble
	recent := false
	for a := range ailments {
		switch had := a.in(t.condition); {
		case !a.in(condition):
			t.since[a] = time.Time{}
		case !had:
			t.since[a] = now
		}
		recent = recent || now.Sub(t.told[a]) < troublePause
	}
	t.condition = condition
	if condition.Sound() && !recent {
		r.trouble = nil
	}
}

// telling notes which ailments a write makes known.
func (r *record) telling(entries []addressEntry, now time.Time) {
	if r.trouble == nil {
		return
	}
	for a := range ailments {
		if text := a.problem(); a.in(r.trouble.condition) && shows(entries, text) && !shows(r.seen, text) {
			r.trouble.told[a] = now
		}
	}
}

// portErrors are those of the plain port and of the encrypted ones; empty is
// none.
type portErrors struct{ plain, encrypted string }

// diagnosis is what to tell of an Ingress at this moment.
type diagnosis struct {
	errors portErrors
	// waits says that something is wrong that is not told yet, and rest for how
	// long.
	waits bool
	rest  time.Duration
}

// add puts an ailment behind those that are worse.
func (d *diagnosis) add(a ailment, encryptedOnly bool) {
	if d.errors.encrypted == "" {
		d.errors.encrypted = a.problem()
	}
	if d.errors.plain == "" && a != ailUncertified && !encryptedOnly {
		d.errors.plain = a.problem()
	}
}

// diagnose says what of the trouble is told. What the status says already goes
// on being said, and anything else has to last for a while first. But a status
// that says that something is wrong never says in between that all is well.
func (r *record) diagnose(now time.Time) diagnosis {
	var d, all diagnosis
	if r.trouble == nil {
		return d
	}
	condition := r.trouble.condition
	for a := range ailments {
		if !a.in(condition) {
			continue
		}
		all.add(a, condition.EncryptedOnly)
		rest := r.trouble.due(a).Sub(now)
		if rest <= 0 || shows(r.seen, a.problem()) {
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
func (t *trouble) due(a ailment) time.Time {
	due := t.since[a].Add(a.patience())
	if a == ailRefused || t.told[a].IsZero() {
		return due
	}
	if paused := t.told[a].Add(troublePause); paused.After(due) {
		return paused
	}
	return due
}

// shows reports whether a status has an error.
func shows(entries []addressEntry, problem string) bool {
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

// told are the addresses with errors at their ports. An address without ports
// gets those that have an error, so what is well looks as it always did. An error
// of somebody else, such as of the load balancer, stays.
func (p *published) told(errors portErrors) []addressEntry {
	if errors.encrypted == "" {
		return p.addresses
	}
	entries := canonical(p.addresses)
	for i := range entries {
		if len(entries[i].Ports) == 0 {
			entries[i].Ports = madePorts(errors)
			continue
		}
		p.blame(entries[i].Ports, errors)
	}
	return entries
}

func madePorts(errors portErrors) []portEntry {
	var ports []portEntry
	if errors.plain != "" {
		ports = append(ports, portEntry{Port: plainPort, Protocol: protocolTCP, Error: &errors.plain})
	}
	return append(ports, portEntry{Port: encryptedPort, Protocol: protocolTCP, Error: &errors.encrypted})
}

// blame puts the errors at ports. Where all are plain these have the other one
// too: it must be somewhere.
func (p *published) blame(ports []portEntry, errors portErrors) {
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

// samePlaces compares a status with the addresses that are published, without
// the errors that we put there.
func samePlaces(seen, addresses []addressEntry) bool {
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
