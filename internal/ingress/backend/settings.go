package backend

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// The annotations of each setting, without prefix and in lower case. A fault names
// the one that is set.
const (
	inScheme      = "scheme service.serversscheme"
	inTransport   = "transport service.serverstransport"
	inNative      = "native-lb service.nativelb"
	inNodePort    = "node-port-lb service.nodeportlb"
	inSticky      = "sticky-cookie service.sticky.cookie"
	inBalancing   = "balance balance-hash slow-start prefer-zone"
	inHealthCheck = "health-check"
	inLimits      = "max-in-flight max-in-flight-per-endpoint"
)

// readSettings parses the annotations of the Service. A fault in one that requests
// depend on closes the backend.
func (b *builder) readSettings() *refusal.Refusal {
	settings, faults := annotation.ParseService(b.service.Annotations)
	b.settings = settings
	b.readNGINX()
	for i := range faults {
		b.refuse(&faults[i])
	}
	if !settings.Closed {
		b.replaceSettings()
		return nil
	}
	switch len(faults) {
	case 0:
		return refusal.New("", refusal.Invalid, "its annotations are not understood: correct them")
	case 1:
		return &faults[0]
	}
	// The parser does not return which fault closes, so all are reported.
	return &refusal.Refusal{Reason: faults[0].Reason, Message: refusal.Summary(faults)}
}

// replaceSettings replaces the settings of the Service by those of the options.
func (b *builder) replaceSettings() {
	given := b.options.Settings
	if given == nil {
		return
	}
	settings := *b.settings
	settings.Scheme = cmp.Or(given.Scheme, settings.Scheme)
	settings.Transport = cmp.Or(given.Transport, settings.Transport)
	settings.PassHostHeader = cmp.Or(given.PassHostHeader, settings.PassHostHeader)
	settings.Sticky = cmp.Or(given.Sticky, settings.Sticky)
	settings.Balancing = cmp.Or(given.Balancing, settings.Balancing)
	settings.HealthCheck = cmp.Or(given.HealthCheck, settings.HealthCheck)
	settings.NativeLB, settings.NodePortLB = cmp.Or(given.NativeLB, settings.NativeLB), cmp.Or(given.NodePortLB, settings.NodePortLB)
	b.settings = &settings
}

// field returns the field of a setting in the Service; empty if it is not set there.
func (b *builder) field(setting string) string {
	for _, name := range slices.Sorted(maps.Keys(b.service.Annotations)) {
		_, key, _ := strings.Cut(strings.ToLower(name), "/")
		for word := range strings.FieldsSeq(setting) {
			if snapshot.Annotation(name) && (key == word || strings.HasPrefix(key, word+".")) {
				return "metadata.annotations[" + name + "]"
			}
		}
	}
	return ""
}

// setSticky sets the sticky cookie. An invalid one closes the backend: without it
// clients would lose their sessions. A rule with a session has a cookie of its own, and
// comes before the Service.
func (b *builder) setSticky() *refusal.Refusal {
	if b.session {
		b.result.Backend.Sticky = &route.StickyCookie{}
		return nil
	}
	b.result.Backend.Sticky = b.settings.Sticky
	if b.settings.Sticky == nil {
		return nil
	}
	return b.faultOf(&route.Backend{ID: b.result.Backend.ID, Sticky: b.settings.Sticky}, inSticky)
}

// setTuning sets the optional settings, which are left out with a refusal if they
// are invalid.
func (b *builder) setTuning() {
	backend := b.result.Backend
	bare := route.Backend{ID: backend.ID, Transport: backend.Transport}

	balanced := bare
	balanced.Balancing = b.settings.Balancing
	if b.usable(&balanced, inBalancing) {
		backend.Balancing = balanced.Balancing
	}
	checked := bare
	checked.HealthCheck = b.settings.HealthCheck
	if b.usable(&checked, inHealthCheck) {
		backend.HealthCheck = checked.HealthCheck
	}
	limited := bare
	limited.MaxInFlight, limited.MaxInFlightPerEndpoint = b.settings.MaxInFlight, b.settings.MaxInFlightPerEndpoint
	if b.usable(&limited, inLimits) {
		backend.MaxInFlight, backend.MaxInFlightPerEndpoint = limited.MaxInFlight, limited.MaxInFlightPerEndpoint
	}
}

// usable reports whether a setting is valid, and records a refusal if not.
func (b *builder) usable(with *route.Backend, setting string) bool {
	fault := b.faultOf(with, setting)
	if fault != nil {
		b.refuse(fault)
	}
	return fault == nil
}

// faultOf returns the first problem of a backend as a fault of the setting.
func (b *builder) faultOf(backend *route.Backend, setting string) *refusal.Refusal {
	problems := backend.Validate()
	if len(problems) == 0 {
		return nil
	}
	return &refusal.Refusal{Field: b.field(setting), Reason: refusal.Invalid, Message: problems[0].Text()}
}
