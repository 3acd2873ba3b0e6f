package node

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
)

const (
	answerTimeout = 5 * time.Second
	// timeToLive is short, because Services come and go.
	timeToLive = 2
	// largestQuery is the most that a query over UDP has without extensions.
	largestQuery = 512
)

// nameServer is the DNS of the cluster: it answers for Services from the API
// server, and for names of its own. Addresses are those of IPv4; it knows nothing
// else, and asks nobody.
type nameServer struct {
	names   map[string]string
	service func(ctx context.Context, namespace, name string) (*corev1.Service, error)
}

// serve answers queries, one after the other: there are few.
func (d *nameServer) serve(ctx context.Context, socket net.PacketConn) {
	query := make([]byte, largestQuery)
	for ctx.Err() == nil {
		size, from, err := socket.ReadFrom(query)
		if err != nil {
			continue // it is closed, which the loop sees, or an answer did not arrive
		}
		if answer, err := d.answer(ctx, query[:size]); err == nil {
			_, _ = socket.WriteTo(answer, from) // who gets none asks again
		}
	}
}

// answer is what a query gets.
func (d *nameServer) answer(ctx context.Context, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	address, known := d.resolve(ctx, strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")))
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	if question.Type == dnsmessage.TypeA && address.Is4() {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: timeToLive},
			Body:   &dnsmessage.AResource{A: address.As4()},
		}}
	}
	return reply.Pack()
}

// resolve gives the address of a name, and whether there is such a name. A Service
// without an address is a name all the same.
func (d *nameServer) resolve(ctx context.Context, name string) (address netip.Addr, known bool) {
	if target, ok := d.names[name]; ok {
		if address, err := netip.ParseAddr(target); err == nil {
			return address, true
		}
		namespace, service, _ := strings.Cut(target, "/")
		if found, err := d.service(ctx, namespace, service); err == nil {
			address, _ = balancerAddress(found) // it comes later
		}
		return address, true
	}
	host, ok := strings.CutSuffix(name, ".svc."+domain)
	if !ok {
		return address, false
	}
	service, namespace, ok := strings.Cut(host, ".")
	if !ok || strings.Contains(namespace, ".") {
		return address, false
	}
	found, err := d.service(ctx, namespace, service)
	if err != nil {
		return address, false
	}
	address, _ = netip.ParseAddr(found.Spec.ClusterIP) // a headless Service has none
	return address, true
}
