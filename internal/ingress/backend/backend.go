package backend

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Options are those of the provider that decide how Services are reached.
type Options struct {
	// ExternalNames allows Services of type ExternalName.
	ExternalNames bool
	// NativeByDefault sends requests to the address of the Service.
	NativeByDefault bool
	// DisablePassHost sends backends their own address as the Host header.
	DisablePassHost bool
	// NoClusterScope is set where nodes are not read.
	NoClusterScope bool
	// CrossNamespace allows references into other namespaces.
	CrossNamespace bool
	// Zone is where this replica runs, for topology hints; empty when unknown.
	Zone string
}

// Result is a backend, with what the table needs besides and what was refused.
type Result struct {
	// Backend is never nil. It has no endpoints when there are none, and when it
	// is closed.
	Backend *route.Backend
	// Endpoints says for people where the endpoints come from and how many
	// there are.
	Endpoints Endpoints
	// Timeouts are what the transport declares, for the rules that use the
	// backend.
	Timeouts route.Timeouts
	// Authorities and Certificates are what the transport needs.
	Authorities  []*route.Authority
	Certificates []*route.Certificate
	// Refusals are the faults, each with the object that has it.
	Refusals []snapshot.Refusal
	// Closed says why no request may be sent; nil when requests may.
	Closed *snapshot.Fault
}

// Summary is what rules depend on. It is the same while only endpoints come and
// go, so rules are made again only when it changes.
type Summary struct {
	// Closed is the fault of a closed backend. Its reason is empty when the
	// backend is open.
	Closed snapshot.Fault
	// Empty says that there is no endpoint.
	Empty    bool
	Timeouts route.Timeouts
}

// Summary gives what rules depend on.
func (r *Result) Summary() Summary {
	summary := Summary{Empty: len(r.Backend.Endpoints) == 0, Timeouts: r.Timeouts}
	if r.Closed != nil {
		summary.Closed = *r.Closed
	}
	return summary
}

// Build makes the backend of a Service's port. The identity has the number of
// the port; its variant is kept as it is.
func Build(view *snapshot.View, id route.BackendID, options Options) Result {
	b := &builder{
		view: view, options: options,
		result: Result{Backend: &route.Backend{ID: id}},
	}
	b.service = view.Service(id.Namespace, id.Name)
	if b.service == nil {
		return b.gone(fmt.Sprintf("there is no Service %s/%s: create it, or name another", id.Namespace, id.Name))
	}
	b.port = portOf(b.service, id.Port)
	if b.port == nil {
		return b.gone(fmt.Sprintf("the Service %s/%s has no TCP port %d: it has %s", id.Namespace, id.Name, id.Port, portList(b.service)))
	}
	b.build()
	return b.result
}

// builder makes one backend.
type builder struct {
	view     *snapshot.View
	options  Options
	service  *corev1.Service
	port     *corev1.ServicePort
	settings *annotation.Service
	// external is what the name of an ExternalName stands for.
	external external
	result   Result
}

// build goes from what can close the backend to what it can do without.
func (b *builder) build() {
	if fault := b.readSettings(); fault != nil {
		b.shut(fault)
		return
	}
	steps := []func() *snapshot.Fault{b.readExternalName, b.setTransport, b.setSticky, b.setEndpoints, b.lastCheck}
	for _, step := range steps {
		if fault := step(); fault != nil {
			b.refuse(*fault)
			b.shut(fault)
			return
		}
	}
	b.setTuning()
}

// gone is the result for a port that is not there. The fault is that of whoever
// names it, so there is nobody to tell it here.
func (b *builder) gone(message string) Result {
	b.shut(&snapshot.Fault{Reason: snapshot.NotFound, Message: message})
	return b.result
}

// refuse notes a fault of the Service.
func (b *builder) refuse(fault snapshot.Fault) {
	b.refuseOn(snapshot.Ref{Kind: snapshot.Service, Namespace: b.service.Namespace, Name: b.service.Name}, fault)
}

// refuseOn notes a fault of an object.
func (b *builder) refuseOn(object snapshot.Ref, fault snapshot.Fault) {
	fault.Message = bounded(fault.Message)
	b.result.Refusals = append(b.result.Refusals, snapshot.Refusal{Object: object, Fault: fault})
}

// shut closes the backend. Nothing is left that a request could be sent by.
func (b *builder) shut(fault *snapshot.Fault) {
	closed := *fault
	closed.Message = bounded(closed.Message)
	b.result = Result{
		Backend:  &route.Backend{ID: b.result.Backend.ID},
		Refusals: b.result.Refusals,
		Closed:   &closed,
	}
}

// lastCheck is the net below all others: what route would not serve is closed,
// and says so.
func (b *builder) lastCheck() *snapshot.Fault {
	bare := *b.result.Backend
	bare.Endpoints = nil // made of parsed addresses; there can be thousands
	return b.faultOf(&bare, "")
}

// portOf is the TCP port of a number. Numbers can come twice, for TCP and UDP.
func portOf(service *corev1.Service, number uint16) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if number != 0 && port.Port == int32(number) && (port.Protocol == "" || port.Protocol == corev1.ProtocolTCP) {
			return port
		}
	}
	return nil
}

func portList(service *corev1.Service) string {
	var ports []string
	for _, port := range service.Spec.Ports {
		if port.Protocol == "" || port.Protocol == corev1.ProtocolTCP {
			ports = append(ports, strconv.Itoa(int(port.Port)))
		}
	}
	if len(ports) == 0 {
		return "none"
	}
	return strings.Join(ports, ", ")
}

// bounded keeps a message short: it can quote what a hostile object says.
func bounded(message string) string {
	const most = 400
	if len(message) > most {
		return strings.ToValidUTF8(message[:most], "") + "..."
	}
	return message
}
