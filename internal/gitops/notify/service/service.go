package service

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Message is what is sent.
type Message struct {
	// Service is the name of the service, and Recipient whom it reaches there.
	Service, Recipient string
	// Text is the message, and Section the part of the templates for the type of the
	// service; nil if they have none.
	Text    string
	Section json.RawMessage
	// Template is the name of the template.
	Template string
	// Key identifies the message. It is the same at every attempt.
	Key string
	// At is when the message was first due, the same at every attempt.
	At time.Time
}

// Service sends messages. It is safe for concurrent use.
type Service interface {
	// Send sends a message, or returns why it was not accepted: a *[PermanentError] if
	// another attempt would be in vain, a *[BusyError] if the service requests a pause.
	Send(ctx context.Context, message Message) error
}

// factory makes a service of its options.
type factory func(options decoder, clients *Clients) (Service, error)

// factories are the services by type.
func factories() map[string]factory {
	return map[string]factory{
		"alertmanager": newAlertmanager, "email": newEmail, "github": newGitHub, "gitlab": newGitLab, "googlechat": newGoogleChat,
		"mattermost": newMattermost, "opsgenie": newOpsgenie,
		"pagerdutyv2": newPagerDuty, "slack": newSlack, "teams": newTeams, "teams-workflows": newTeamsWorkflows, "telegram": newTelegram,
		"webhook": newWebhook,
	}
}

// Types returns the types of services that there are.
func Types() []string { return slices.Sorted(maps.Keys(factories())) }

// others are types of Argo CD that are refused, with what to use instead.
func others() map[string]string {
	const hook = "use a webhook service"
	return map[string]string{
		"awssqs": hook + " in front of the queue", "gcppubsub": hook + " in front of the topic", "nats": hook + " in front of the subject",
		"webex": hook, "rocketchat": hook, "pushover": hook, "newrelic": hook, "grafana": hook,
		"pagerduty": "use pagerdutyv2: PagerDuty creates incidents by events",
	}
}

// New makes a service of the YAML of its options, in which references to the Secret are
// replaced. Problems are options that have no effect.
func New(kind string, options []byte, clients *Clients) (made Service, problems []string, err error) {
	build, known := factories()[kind]
	if !known {
		if instead, isOther := others()[kind]; isOther {
			return nil, nil, fmt.Errorf("services of the type %s are not supported: %s", kind, instead)
		}
		return nil, nil, fmt.Errorf("there is no type of service %q: use one of %s", kind, strings.Join(Types(), ", "))
	}
	made, err = build(func(into any) error {
		if strict := yaml.UnmarshalStrict(options, into); strict == nil {
			return nil
		} else if err := yaml.Unmarshal(options, into); err != nil {
			return fmt.Errorf("the options cannot be read: %w", withoutValues(err))
		}
		problems = append(problems, "some options are unknown or given twice, and have no effect")
		return nil
	}, clients)
	return made, problems, err
}

// decoder reads options into a struct.
type decoder func(into any) error

// withoutValues keeps the kind of a decoding error. Its text can have a credential.
func withoutValues(err error) error {
	text, _, _ := strings.Cut(err.Error(), ":")
	return fmt.Errorf("%s", text)
}

// section decodes the part of a message for its service; it is false if there is none.
func section(message *Message, into any) (bool, error) {
	if len(message.Section) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(message.Section, into); err != nil {
		return false, permanent("the template %s has fields of another type than the service needs: %v", message.Template, err)
	}
	return true, nil
}

// document parses a text of a template that is JSON.
func document(message *Message, field, text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, permanent("%s of the template %s is no JSON after it was rendered", field, message.Template)
	}
	return json.RawMessage(text), nil
}

// httpOptions are the options of connections that many services have. The sizes of
// pools are ours.
type httpOptions struct {
	InsecureSkipVerify  bool   `json:"insecureSkipVerify"`
	MaxIdleConns        int    `json:"maxIdleConns"`
	MaxIdleConnsPerHost int    `json:"maxIdleConnsPerHost"`
	MaxConnsPerHost     int    `json:"maxConnsPerHost"`
	IdleConnTimeout     string `json:"idleConnTimeout"`
}
