package admin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// getTable returns the whole table, redacted.
func getTable(source Source, q *query) (any, error) {
	// Before the first table the list is empty, and no error.
	table := cmp.Or(source.Table(), &route.Table{})
	switch format := q.get("format"); format {
	case "", "json":
		return shownTable(table), nil
	case "yaml":
		return asYAML{shownTable(table)}, nil
	default:
		return nil, badRequestf("format is %q: choose json or yaml", format)
	}
}

// RuleInfo is a rule in a list: its match and its action, in short.
type RuleInfo struct {
	ID route.ID `json:"id"`
	// Name is the identity for people.
	Name        string   `json:"name"`
	EntryPoints []string `json:"entryPoints,omitempty"`
	// Listener is set for a rule of a listener, instead of EntryPoints.
	Listener route.ListenerID `json:"listener,omitzero"`
	Host     string           `json:"host,omitempty"`
	// HostOwner is the owner of the host, where it has one.
	HostOwner route.HostOwner `json:"hostOwner,omitzero"`
	Match     route.Match     `json:"match,omitzero"`
	Fallback  bool            `json:"fallback,omitempty"`
	Priority  int32           `json:"priority,omitempty"`
	Policies  []string        `json:"policies,omitempty"`
	Backends  []BackendPart   `json:"backends,omitempty"`
	// Response is the rule's own response, where it has one.
	Response *route.Response `json:"response,omitempty"`
}

// BackendPart is a backend's share of a rule.
type BackendPart struct {
	ID   route.BackendID `json:"id"`
	Name string          `json:"name"`
	// Weight is relative to the other weights of the rule.
	Weight uint32 `json:"weight"`
}

// listRules lists rules by host, and for each host in the order in which they are
// matched.
func listRules(source Source, q *query) (any, error) {
	var rules []*route.Rule
	if table := source.Table(); table != nil {
		rules = inOrder(table.Rules)
	}
	// The filters are case-insensitive. host is exact, q is a substring.
	host, text := strings.ToLower(q.get("host")), strings.ToLower(q.get("q"))
	return paginate(q, rules, func(rule *route.Rule) bool {
		return (host == "" || rule.Host == host) && (text == "" || mentions(rule, text))
	}, ruleInfo)
}

// inOrder sorts rules by host, then by the order of matching.
func inOrder(rules []*route.Rule) []*route.Rule {
	type placed struct {
		rule  *route.Rule
		order route.Order
	}
	// OrderOf parses expressions, so it is called once for each rule.
	places := make([]placed, len(rules))
	for i, rule := range rules {
		places[i] = placed{rule, route.OrderOf(rule)}
	}
	slices.SortFunc(places, func(a, b placed) int {
		return cmp.Or(strings.Compare(a.rule.Host, b.rule.Host), a.order.Compare(b.order))
	})
	sorted := make([]*route.Rule, len(places))
	for i := range places {
		sorted[i] = places[i].rule
	}
	return sorted
}

// mentions reports whether a rule contains a text, which is in lower case, in its
// name, host, path or backends.
func mentions(rule *route.Rule, text string) bool {
	if strings.Contains(strings.ToLower(rule.ID.String()), text) || strings.Contains(rule.Host, text) ||
		strings.Contains(strings.ToLower(rule.Match.Path.Value), text) {
		return true
	}
	// The backends of policies count too, such as an authentication server.
	for id := range rule.BackendIDs {
		if strings.Contains(strings.ToLower(id.String()), text) {
			return true
		}
	}
	return false
}

// ruleInfo summarises a rule, redacted.
func ruleInfo(rule *route.Rule) RuleInfo {
	// Redact first: everything below is copied from the redacted rule.
	rule = shownRule(rule)
	info := RuleInfo{
		ID: rule.ID, Name: rule.ID.String(), EntryPoints: rule.EntryPoints, Listener: rule.Listener, Host: rule.Host, HostOwner: rule.HostOwner, Match: rule.Match,
		Fallback: rule.Fallback, Priority: rule.Priority, Response: rule.Response,
	}
	for i := range rule.Policies {
		name, _ := rule.Policies[i].Named()
		info.Policies = append(info.Policies, name)
	}
	for _, ref := range rule.Backends {
		info.Backends = append(info.Backends, BackendPart{ID: ref.Backend, Name: ref.Backend.String(), Weight: ref.Weight})
	}
	return info
}

// listBackends lists backends with the state of their endpoints.
func listBackends(source Source, q *query) (any, error) {
	text := strings.ToLower(q.get("q"))
	return paginate(q, source.Upstreams(), func(state upstream.BackendState) bool {
		return text == "" || strings.Contains(strings.ToLower(state.ID.String()), text)
	}, func(state upstream.BackendState) upstream.BackendState { return state })
}

// CertificateState is the public part of a certificate, never its key.
type CertificateState struct {
	ID        CertificateName `json:"id"`
	Names     []string        `json:"names"`
	NotBefore time.Time       `json:"notBefore"`
	NotAfter  time.Time       `json:"notAfter"`
	// Valid reports that the current time lies between the two.
	Valid bool `json:"valid"`
	// DaysLeft is until NotAfter, rounded down; negative when it is over.
	DaysLeft int `json:"daysLeft"`
}

// CertificateName names the object that a certificate comes from.
type CertificateName struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// listCertificates lists certificates with their expiry.
func listCertificates(source Source, q *query) (any, error) {
	// One time for the whole list, so that its items are comparable.
	now := time.Now()
	text := strings.ToLower(q.get("q"))
	return paginate(q, source.Certificates(), func(c tlsstore.CertificateInfo) bool {
		return text == "" || strings.Contains(strings.ToLower(c.ID.String()+" "+strings.Join(c.Names, " ")), text)
	}, func(c tlsstore.CertificateInfo) CertificateState {
		const day = 24 * time.Hour
		left := c.NotAfter.Sub(now)
		// Rounded down also below zero: a certificate that expired an hour ago has -1 days.
		days := int(left / day)
		if left < 0 {
			days--
		}
		return CertificateState{
			ID: CertificateName{c.ID.Namespace, c.ID.Name}, Names: c.Names, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
			Valid: !now.Before(c.NotBefore) && !now.After(c.NotAfter), DaysLeft: days,
		}
	})
}
