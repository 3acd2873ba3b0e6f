package dns01

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// queryTimeout bounds one exchange with one server.
	queryTimeout = 5 * time.Second
	// maxHops bounds a chain of CNAME records.
	maxHops = 8
	// maxNameServers bounds the servers of a zone that are checked.
	maxNameServers = 16
	// resolvConf lists the name servers of the system.
	resolvConf = "/etc/resolv.conf"
)

// systemServers returns the name servers of the system. The file is read each time,
// because it may change while the edge runs.
func systemServers() ([]string, error) {
	found, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil || len(found.Servers) == 0 {
		return nil, fmt.Errorf("%s names no DNS server: set dnsChallenge.resolvers", resolvConf)
	}
	servers := make([]string, len(found.Servers))
	for i, server := range found.Servers {
		servers[i] = net.JoinHostPort(server, found.Port)
	}
	return servers, nil
}

// query sends one question to a server, by UDP and again by TCP if the response is
// truncated. A response without records, such as NXDOMAIN, is no error.
func query(ctx context.Context, server, name string, kind uint16, recursive bool) (*dns.Msg, error) {
	question := new(dns.Msg)
	question.SetQuestion(name, kind)
	question.RecursionDesired = recursive
	question.SetEdns0(dns.DefaultMsgSize, false)
	client := dns.Client{Timeout: queryTimeout}
	reply, _, err := client.ExchangeContext(ctx, question, server)
	if err == nil && reply.Truncated {
		client.Net = "tcp"
		reply, _, err = client.ExchangeContext(ctx, question, server)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("query %s %s at %s: %w", name, dns.TypeToString[kind], server, err)
	case reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError:
		return nil, fmt.Errorf("query %s %s at %s: the server responds %s", name, dns.TypeToString[kind], server, dns.RcodeToString[reply.Rcode])
	}
	return reply, nil
}

// resolve queries recursive servers in order, and returns the first response.
func resolve(ctx context.Context, servers []string, name string, kind uint16) (*dns.Msg, error) {
	var failed error
	for _, server := range servers {
		reply, err := query(ctx, server, name, kind, true)
		if err == nil {
			return reply, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// followCNAME returns the name at the end of the CNAME records of a name, which may
// be the name itself. It queries CNAME records one by one: a query for TXT would make
// resolvers cache that there is none yet.
func followCNAME(ctx context.Context, servers []string, first string) (string, error) {
	name := first
	for range maxHops {
		target, err := aliasOf(ctx, servers, name)
		if err == nil && target != "" && name == first {
			// The record *.example.org CNAME of a load balancer matches
			// _acme-challenge.example.org too, until a record of that name exists.
			_, parent, _ := strings.Cut(name, ".")
			var wildcard string
			if wildcard, err = aliasOf(ctx, servers, "*."+parent); wildcard == target {
				target = ""
			}
		}
		switch {
		case err != nil:
			return "", err
		case target == "":
			return name, nil
		}
		name = target
	}
	return "", fmt.Errorf("more than %d CNAME records follow each other at %s: look for a loop", maxHops, first)
}

// aliasOf returns the target of the CNAME record of a name, empty for none.
func aliasOf(ctx context.Context, servers []string, name string) (string, error) {
	reply, err := resolve(ctx, servers, name, dns.TypeCNAME)
	if err != nil {
		return "", err
	}
	for _, found := range reply.Answer {
		if alias, ok := found.(*dns.CNAME); ok && strings.EqualFold(alias.Hdr.Name, name) {
			return dns.CanonicalName(alias.Target), nil
		}
	}
	return "", nil
}

// zoneIn returns the zone that a response about a name is from, by the SOA record
// that it has, or that proves that there is none.
func zoneIn(reply *dns.Msg, name string) string {
	for _, records := range [][]dns.RR{reply.Answer, reply.Ns} {
		for _, found := range records {
			if soa, ok := found.(*dns.SOA); ok && dns.IsSubDomain(soa.Hdr.Name, name) {
				return dns.CanonicalName(soa.Hdr.Name)
			}
		}
	}
	return ""
}

// nameServer is an authoritative server of a zone.
type nameServer struct {
	name      string
	addresses []string
}

// authoritative returns the servers that the zone of a name has in its NS records.
func authoritative(ctx context.Context, servers []string, name string) ([]nameServer, error) {
	zone := ""
	// The response to a query for SOA has the one of the zone in every case but for
	// servers that leave it out; their zone is found further up.
	for at, end := 0, false; !end && zone == ""; at, end = dns.NextLabel(name, at) {
		reply, err := resolve(ctx, servers, name[at:], dns.TypeSOA)
		if err != nil {
			return nil, err
		}
		zone = zoneIn(reply, name[at:])
	}
	if zone == "" {
		return nil, fmt.Errorf("no zone is found for %s", name)
	}
	reply, err := resolve(ctx, servers, zone, dns.TypeNS)
	if err != nil {
		return nil, err
	}
	var found []nameServer
	for _, record := range reply.Answer {
		ns, ok := record.(*dns.NS)
		if !ok || len(found) == maxNameServers {
			continue
		}
		addresses, err := addressesOf(ctx, servers, ns.Ns)
		if err != nil {
			return nil, err
		}
		found = append(found, nameServer{name: ns.Ns, addresses: addresses})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the zone %s has no NS records", zone)
	}
	return found, nil
}

// addressesOf returns the addresses of a name server, IPv4 first: many clusters have
// no route for the others.
func addressesOf(ctx context.Context, servers []string, name string) ([]string, error) {
	var addresses []string
	var failed error
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		reply, err := resolve(ctx, servers, name, kind)
		if err != nil {
			failed = err
			continue
		}
		for _, record := range reply.Answer {
			switch address := record.(type) {
			case *dns.A:
				addresses = append(addresses, net.JoinHostPort(address.A.String(), "53"))
			case *dns.AAAA:
				addresses = append(addresses, net.JoinHostPort(address.AAAA.String(), "53"))
			}
		}
	}
	if len(addresses) == 0 {
		return nil, errors.Join(fmt.Errorf("the name server %s has no address", name), failed)
	}
	return addresses, nil
}

// hasRecord returns an error if the first server that responds does not have the
// record.
func hasRecord(ctx context.Context, servers []string, record Record, recursive bool) error {
	var failed error
	for _, server := range servers {
		reply, err := query(ctx, server, record.Name, dns.TypeTXT, recursive)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		for _, found := range reply.Answer {
			if txt, ok := found.(*dns.TXT); ok && strings.Join(txt.Txt, "") == record.Value {
				return nil
			}
		}
		return fmt.Errorf("%s does not have it yet", server)
	}
	return failed
}
