package dns01

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/secret"
)

const (
	// recordTTL is short: a record is read once.
	recordTTL = 60
	// clockSkew is the difference of clocks that TSIG allows (RFC 8945, section 10).
	clockSkew = 300
)

// RFC2136 writes records with dynamic updates (RFC 2136) that are signed with a TSIG
// key (RFC 8945).
type RFC2136 struct {
	// Server is the primary server of the zones, as host or host:port.
	Server string
	// Key is the name of the TSIG key, and Algorithm such as hmac-sha256.
	Key, Algorithm string
	// SecretFile has the secret of the key, in base64.
	SecretFile string
}

// Validate implements Provider.
func (p *RFC2136) Validate() error {
	_, err := p.secret()
	return err
}

// secret reads the secret of the key.
func (p *RFC2136) secret() (secret.Text, error) {
	text, err := readCredentials(p.SecretFile)
	if err != nil {
		return secret.Text{}, err
	}
	key := strings.TrimSpace(string(text))
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) == 0 {
		return secret.Text{}, fmt.Errorf("%s has no TSIG secret: write the secret of the key alone, in base64 as tsig-keygen prints it", p.SecretFile)
	}
	return secret.New(key), nil
}

// Add implements Provider.
func (p *RFC2136) Add(ctx context.Context, record Record) error {
	return p.update(ctx, record, (*dns.Msg).Insert)
}

// Remove implements Provider.
func (p *RFC2136) Remove(ctx context.Context, record Record) error {
	return p.update(ctx, record, (*dns.Msg).Remove)
}

// update sends one update of one record. Both kinds affect that record alone, and
// none of the others with its name.
func (p *RFC2136) update(ctx context.Context, record Record, change func(*dns.Msg, []dns.RR)) error {
	zone, err := p.zoneOf(ctx, record.Name)
	if err != nil {
		return err
	}
	message := new(dns.Msg)
	message.SetUpdate(zone)
	change(message, []dns.RR{&dns.TXT{
		Hdr: dns.RR_Header{Name: record.Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: recordTTL}, Txt: []string{record.Value},
	}})
	if _, err := p.exchange(ctx, message); err != nil {
		return fmt.Errorf("update %s in the zone %s: %w", record.Name, zone, err)
	}
	return nil
}

// zoneOf returns the zone of a name at the server. An authoritative response to a
// query for SOA has that of the zone, whether the name exists or not.
func (p *RFC2136) zoneOf(ctx context.Context, name string) (string, error) {
	question := new(dns.Msg)
	question.SetQuestion(name, dns.TypeSOA)
	question.RecursionDesired = false
	reply, err := p.exchange(ctx, question)
	if err != nil {
		return "", fmt.Errorf("look for the zone of %s: %w", name, err)
	}
	zone := zoneIn(reply, name)
	if !reply.Authoritative || zone == "" {
		return "", fmt.Errorf("the name server %s has no zone for %s: name the primary server in dnsChallenge.rfc2136.nameserver, or delegate the name to one of its zones with a CNAME record", p.Server, name)
	}
	return zone, nil
}

// exchange sends a signed message over TCP, which no response is too long for.
func (p *RFC2136) exchange(ctx context.Context, message *dns.Msg) (*dns.Msg, error) {
	key, err := p.secret()
	if err != nil {
		return nil, err
	}
	name := dns.CanonicalName(p.Key)
	message.SetTsig(name, dns.Fqdn(p.Algorithm), clockSkew, time.Now().Unix())
	client := dns.Client{Net: "tcp", Timeout: queryTimeout, TsigSecret: map[string]string{name: key.Reveal()}}
	reply, _, err := client.ExchangeContext(ctx, message, withPort(p.Server))
	if reply != nil && reply.Rcode != dns.RcodeSuccess && reply.Rcode != dns.RcodeNameError {
		return nil, p.refused(reply)
	}
	if err != nil {
		return nil, fmt.Errorf("the name server %s: %w", p.Server, err)
	}
	// The library verifies a signature, but does not require one.
	if reply.IsTsig() == nil {
		return nil, fmt.Errorf("the response of the name server %s is not signed with the key %s", p.Server, p.Key)
	}
	return reply, nil
}

// refused explains the response code of a server. The errors of TSIG come first,
// because they are about the options and not about the zone.
func (p *RFC2136) refused(reply *dns.Msg) error {
	code := dns.RcodeToString[reply.Rcode]
	if signature := reply.IsTsig(); signature != nil {
		switch signature.Error {
		case dns.RcodeBadSig, dns.RcodeBadKey:
			return fmt.Errorf("the name server %s does not accept the key %s: check tsigKey, tsigAlgorithm and the secret in tsigSecretFile", p.Server, p.Key)
		case dns.RcodeBadTime:
			return errors.New("the clock differs from that of the name server " + p.Server)
		}
	}
	return fmt.Errorf("the name server %s responds %s: allow the key %s to change TXT records there", p.Server, code, p.Key)
}
