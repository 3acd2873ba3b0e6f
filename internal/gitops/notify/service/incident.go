package service

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// pagerDutyOptions are those of PagerDuty. The address is ours to set for tests and for
// the service region of Europe.
type pagerDutyOptions struct {
	ServiceKeys map[string]string `json:"serviceKeys"`
	APIURL      string            `json:"apiURL"`
	httpOptions
}

// pagerDutySection is the part of templates for PagerDuty.
type pagerDutySection struct {
	Summary   string `json:"summary"`
	Severity  string `json:"severity"`
	Source    string `json:"source"`
	Component string `json:"component"`
	Group     string `json:"group"`
	Class     string `json:"class"`
	URL       string `json:"url"`
	DedupKey  string `json:"dedupKey"`
}

// pagerDuty sends events of version 2, which recognise a second one by its key.
type pagerDuty struct {
	options pagerDutyOptions
	client  *http.Client
}

func newPagerDuty(options decoder, clients *Clients) (Service, error) {
	p := &pagerDuty{}
	if err := options(&p.options); err != nil {
		return nil, err
	}
	p.options.APIURL = strings.TrimRight(cmp.Or(p.options.APIURL, "https://events.pagerduty.com"), "/")
	if err := checkAddress("apiURL", p.options.APIURL); err != nil {
		return nil, err
	}
	p.client = clients.of(p.options.httpOptions)
	return p, nil
}

// Send triggers an event of the service that the recipient names.
func (p *pagerDuty) Send(ctx context.Context, message Message) error {
	key, known := p.options.ServiceKeys[message.Recipient]
	if !known {
		return permanent("the option serviceKeys has no recipient %q", message.Recipient)
	}
	var own pagerDutySection
	if has, err := section(&message, &own); err != nil {
		return err
	} else if !has {
		return permanent("the template %s has no section pagerdutyv2", message.Template)
	}
	payload := map[string]string{"summary": own.Summary, "severity": own.Severity, "source": own.Source}
	for name, value := range map[string]string{"component": own.Component, "group": own.Group, "class": own.Class} {
		if value != "" {
			payload[name] = value
		}
	}
	event := map[string]any{
		"routing_key": key, "event_action": "trigger", "payload": payload, "client": "Slipway", "dedup_key": cmp.Or(own.DedupKey, message.Key),
	}
	if own.URL != "" {
		event["client_url"] = own.URL
	}
	request, err := postJSON(p.options.APIURL+"/v2/enqueue", event)
	if err != nil {
		return err
	}
	return request.do(ctx, p.client)
}

// opsgenieOptions are those of Opsgenie.
type opsgenieOptions struct {
	APIURL  string            `json:"apiUrl"`
	APIKeys map[string]string `json:"apiKeys"`
	httpOptions
}

// opsgenieSection is the part of templates for Opsgenie, with the names of its API.
type opsgenieSection struct {
	Description string            `json:"description"`
	Priority    string            `json:"priority,omitempty"`
	Alias       string            `json:"alias,omitempty"`
	Note        string            `json:"note,omitempty"`
	Actions     []string          `json:"actions,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Details     map[string]string `json:"details,omitempty"`
	Entity      string            `json:"entity,omitempty"`
	VisibleTo   json.RawMessage   `json:"visibleTo,omitempty"`
	User        string            `json:"user,omitempty"`
}

// opsgenie creates alerts, which recognise a second one by its alias.
type opsgenie struct {
	options opsgenieOptions
	client  *http.Client
}

func newOpsgenie(options decoder, clients *Clients) (Service, error) {
	o := &opsgenie{}
	if err := options(&o.options); err != nil {
		return nil, err
	}
	o.options.APIURL = cmp.Or(o.options.APIURL, "https://api.opsgenie.com")
	if !strings.Contains(o.options.APIURL, "://") {
		o.options.APIURL = "https://" + o.options.APIURL // documented as a host
	}
	o.options.APIURL = strings.TrimRight(o.options.APIURL, "/")
	if err := checkAddress("apiUrl", o.options.APIURL); err != nil {
		return nil, err
	}
	o.client = clients.of(o.options.httpOptions)
	return o, nil
}

// Send creates an alert for the team that the recipient names.
func (o *opsgenie) Send(ctx context.Context, message Message) error {
	key, known := o.options.APIKeys[message.Recipient]
	if !known {
		return permanent("the option apiKeys has no recipient %q", message.Recipient)
	}
	var own opsgenieSection
	if has, err := section(&message, &own); err != nil {
		return err
	} else if has && own.Description == "" {
		return permanent("the template %s has no description in its section opsgenie", message.Template)
	}
	own.Alias = cmp.Or(own.Alias, message.Key)
	request, err := postJSON(o.options.APIURL+"/v2/alerts", struct {
		Message    string              `json:"message"`
		Source     string              `json:"source"`
		Responders []map[string]string `json:"responders"`
		opsgenieSection
	}{message.Text, "Slipway", []map[string]string{{"type": "team", "id": message.Recipient}}, own})
	if err != nil {
		return err
	}
	request.header.Set("Authorization", "GenieKey "+key)
	return request.do(ctx, o.client)
}
