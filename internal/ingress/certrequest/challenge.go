package certrequest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/route"
)

// ChallengesSecret is the Secret in the namespace of the edge that has the key
// authorizations of pending challenges. The leader writes it, and all replicas
// serve from it: the request of an authority may reach any of them.
const ChallengesSecret = "slipway-acme-challenges"

// ChallengePath is the path of HTTP-01 challenges (RFC 8555, section 8.3); the
// token follows.
const ChallengePath = "/.well-known/acme-challenge/"

// maxChallenges bounds the rules that are served. One order has a challenge for
// each host, and the orders of a resolver run one after the other.
const maxChallenges = 1000

// Challenge is the response that an authority expects from a host, or the TXT
// record that it expects there. Its JSON form is shared between replicas of
// different versions.
type Challenge struct {
	Host string `json:"host"`
	// EntryPoint receives the request of the authority.
	EntryPoint string `json:"entryPoint"`
	// KeyAuthorization is the body of the response, or the text of the record.
	KeyAuthorization string `json:"answer"`
	// Record is the name of the TXT record of a DNS-01 challenge, and Resolver the
	// one whose provider has written it. Both are empty for HTTP-01.
	Record   string `json:"record,omitempty"`
	Resolver string `json:"resolver,omitempty"`
	// Created is when it was written, so that abandoned ones can be swept.
	Created time.Time `json:"created"`
}

// Encode returns the value of the challenge's token in the Secret.
func (c Challenge) Encode() []byte {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // text and a time that was just read from a clock
	}
	return text
}

// DecodeChallenge parses the value of a token in the Secret.
func DecodeChallenge(value []byte) (Challenge, error) {
	var c Challenge
	if err := json.Unmarshal(value, &c); err != nil {
		return Challenge{}, fmt.Errorf("it is not a challenge: %w", err)
	}
	return c, nil
}

// challengeKind is the Kind in the ID of challenge rules. No Kubernetes object
// that makes rules has it.
const challengeKind = "Challenge"

// ChallengeRules returns the rules that serve the challenges of a Secret, in the
// order of their tokens, and the entries that are invalid. A challenge is served at its
// entry point and at the listeners that request a certificate for its host.
func ChallengeRules(namespace string, data map[string][]byte, listeners func(host string) []route.ListenerID) (rules []*route.Rule, bad []string) {
	for i, token := range slices.Sorted(maps.Keys(data)) {
		if i == maxChallenges {
			bad = append(bad, fmt.Sprintf("%s and those after it: there are more than %d", token, maxChallenges))
			break
		}
		rule, err := challengeRule(namespace, token, data[token])
		switch {
		case err != nil:
			bad = append(bad, fmt.Sprintf("%s: %v", token, err))
		case rule != nil:
			rules = append(rules, rule)
			for i, id := range listeners(rule.Host) {
				rules = append(rules, atListener(rule, i, id))
			}
		}
	}
	return rules, bad
}

// atListener returns the rule of a challenge for one of the listeners that serve it.
func atListener(rule *route.Rule, position int, id route.ListenerID) *route.Rule {
	at := *rule
	at.ID.Rule = position + 1 // that of the entry point has 0
	at.EntryPoints, at.Listener = nil, id
	return &at
}

// challengeRule returns a rule for one path of one host that wins over all
// others: redirects have a lower priority, and a rule without an age is older
// than all others. A DNS-01 challenge has none.
func challengeRule(namespace, token string, value []byte) (*route.Rule, error) {
	c, err := DecodeChallenge(value)
	if err != nil {
		return nil, err
	}
	if c.Record != "" {
		return nil, nil
	}
	if _, wildcard := route.WildcardParent(c.Host); c.Host == "" || wildcard || c.EntryPoint == "" {
		return nil, fmt.Errorf("it is for no host or no entry point")
	}
	rule := &route.Rule{
		ID:          route.ID{Kind: challengeKind, Namespace: namespace, Name: ChallengesSecret, Variant: token},
		EntryPoints: []string{c.EntryPoint},
		Host:        c.Host,
		Match:       route.Match{Path: route.PathMatch{Type: route.PathExact, Value: ChallengePath + token}},
		Priority:    1<<31 - 1,
		Response:    &route.Response{Status: 200, Reason: route.ReasonConfigured, Message: "a challenge of a certificate authority", Body: c.KeyAuthorization},
	}
	if problems := rule.Validate(); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Field, problems[0].Message)
	}
	return rule, nil
}

// TokenOf returns the token that a rule serves, and whether it is a challenge
// rule.
func TokenOf(rule *route.Rule) (string, bool) {
	if rule.ID.Kind != challengeKind {
		return "", false
	}
	return strings.TrimPrefix(rule.Match.Path.Value, ChallengePath), true
}
