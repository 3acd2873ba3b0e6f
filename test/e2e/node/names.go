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
	// responseTimeout bounds the API request for one query. Resolvers retry after
	// about the same time.
	responseTimeout = 5 * time.Second
	// timeToLive is short, because Services are created and deleted during a
	// run and a resolver caches the response.
	timeToLive = 2
	// largestQuery is the maximum size of a UDP query without EDNS (RFC 1035,
	// section 4.2.1).
	largestQuery = 512
)

// nameServer is the cluster DNS. It resolves Services through the API server,
// and the additional names of Config. It serves A records only and forwards
// nothing, so an unknown name fails at once instead of after a timeout.
type nameServer struct {
	names   map[string]string
	service func(ctx context.Context, namespace, name string) (*corev1.Service, error)
}

// serve handles queries one after the other until the socket is closed. There
// are few of them, so a slow API request may delay the next query.
func (d *nameServer) serve(ctx context.Context, socket net.PacketConn) {
	query := make([]byte, largestQuery)
	for ctx.Err() == nil {
		size, from, err := socket.ReadFrom(query)
		if err != nil {
			continue // closed, which the loop condition covers, or an ICMP error of an earlier response
		}
		// A malformed query gets no response. A lost response is not repeated
		// here: the resolver retries.
		if body, err := d.response(ctx, query[:size]); err == nil {
			_, _ = socket.WriteTo(body, from) // the resolver retries
		}
	}
}

// body builds the response to a query. It considers the first question only;
// resolvers send one.
func (d *nameServer) response(ctx context.Context, query []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	address, known := d.resolve(ctx, strings.ToLower(strings.TrimSuffix(question.Name.String(), ".")))
	// RecursionAvailable is set although nothing is forwarded: stub resolvers
	// request recursion from the cluster DNS.
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	// An existing name without an A record gets an empty response and not
	// NXDOMAIN, which applies to all record types of the name (RFC 2308).
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

// resolve returns the address of a name and whether the name exists. A Service
// exists even without an address: a load balancer that is pending, or a
// headless Service.
func (d *nameServer) resolve(ctx context.Context, name string) (address netip.Addr, known bool) {
	if target, ok := d.names[name]; ok {
		if address, err := netip.ParseAddr(target); err == nil {
			return address, true
		}
		namespace, service, _ := strings.Cut(target, "/")
		if found, err := d.service(ctx, namespace, service); err == nil {
			address, _ = balancerAddress(found) // pending
		}
		return address, true
	}
	host, ok := strings.CutSuffix(name, ".svc."+domain)
	if !ok {
		return address, false
	}
	service, namespace, ok := strings.Cut(host, ".")
	// Names of single Pods (pod.service.namespace) are not supported.
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
