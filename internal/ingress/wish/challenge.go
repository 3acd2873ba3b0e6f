package wish

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/route"
)

// ChallengesSecret is the Secret in the namespace of the edge that has the
// answers to the challenges of authorities. The replica that fetches writes it,
// and all replicas answer from it: an authority may ask any of them.
const ChallengesSecret = "slipway-acme-challenges"

// ChallengePath is where an authority asks; the token follows.
const ChallengePath = "/.well-known/acme-challenge/"

// maxChallenges bounds what is served. One order has as many as it has hosts,
// and orders run one after the other.
const maxChallenges = 1000

// Challenge is the answer that an authority is to find at a host.
type Challenge struct {
	Host string `json:"host"`
	// EntryPoint is where the authority asks.
	EntryPoint string `json:"entryPoint"`
	Answer     string `json:"answer"`
	// Created is when it was written, so that what was left behind is found.
	Created time.Time `json:"created"`
}

// Encode gives the challenge as the value of its token in the Secret.
func (c Challenge) Encode() []byte {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // text and a time that was just read from a clock
	}
	return text
}

// DecodeChallenge reads the value of a token.
func DecodeChallenge(value []byte) (Challenge, error) {
	var c Challenge
	if err := json.Unmarshal(value, &c); err != nil {
		return Challenge{}, fmt.Errorf("it is not a challenge: %w", err)
	}
	return c, nil
}

// challengeKind is the kind of the rules for challenges.
const challengeKind = "Challenge"

// ChallengeRules gives the rules that answer the challenges of a Secret, in the
// order of their tokens. Entries that make no rule are left out and named.
func ChallengeRules(namespace string, data map[string][]byte) (rules []*route.Rule, bad []string) {
	for i, token := range slices.Sorted(maps.Keys(data)) {
		if i == maxChallenges {
			bad = append(bad, fmt.Sprintf("%s and those after it: there are more than %d", token, maxChallenges))
			break
		}
		rule, err := challengeRule(namespace, token, data[token])
		if err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", token, err))
			continue
		}
		rules = append(rules, rule)
	}
	return rules, bad
}

// challengeRule answers at one path of one host, before every other rule: those
// that send clients elsewhere have a lower priority, and a rule without an age
// is older than all others.
func challengeRule(namespace, token string, value []byte) (*route.Rule, error) {
	c, err := DecodeChallenge(value)
	if err != nil {
		return nil, err
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
		Response:    &route.Response{Status: 200, Reason: route.ReasonConfigured, Message: "a challenge of a certificate authority", Body: c.Answer},
	}
	if problems := rule.Validate(); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Field, problems[0].Message)
	}
	return rule, nil
}

// TokenOf is the token that a rule answers for, and whether it is such a rule.
func TokenOf(rule *route.Rule) (string, bool) {
	if rule.ID.Kind != challengeKind {
		return "", false
	}
	return strings.TrimPrefix(rule.Match.Path.Value, ChallengePath), true
}
