package notify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/notify/service"
)

// Trial evaluates triggers and renders templates about one Application, for people who
// write them. It records nothing. Expressions and templates run in this process: they
// are those of the person who runs it.
type Trial struct {
	Settings *Settings
	// Application is required. Project may be nil.
	Application, Project *unstructured.Unstructured
	// Edge is what the edges serve; nil if it is not known.
	Edge *message.Edge
}

// Trigger evaluates the conditions of a trigger, as a controller does.
func (t *Trial) Trigger(name string) ([]message.Condition, []message.Result, error) {
	conditions, known := t.Settings.Triggers[name]
	if !known {
		return nil, nil, fmt.Errorf("there is no trigger %q: there are %s", name, names(t.Settings.Triggers))
	}
	var texts []string
	for _, one := range conditions {
		texts = append(texts, one.When, one.OncePer)
	}
	request, err := t.request(withDeployedRevision(t.Application), texts)
	if err != nil {
		return nil, nil, err
	}
	request.Triggers = map[string][]message.Condition{name: conditions}
	response, err := message.Run(request)
	if err != nil {
		return nil, nil, err
	}
	return conditions, response.Results[name], nil
}

// Render renders a template for a destination. A service that the settings do not have
// is of the type of its name, so that a section can be tried before its credentials exist.
func (t *Trial) Render(template string, to Destination) (*message.Message, error) {
	text, known := t.Settings.Templates[template]
	if !known {
		return nil, fmt.Errorf("there is no template %q: there are %s", template, names(t.Settings.Templates))
	}
	request, err := t.request(t.Application, []string{text})
	if err != nil {
		return nil, err
	}
	request.Templates = []message.Template{{Name: template, Text: text}}
	request.Service, request.Type, request.Recipient = to.Service, to.Service, to.Recipient
	if found, configured := t.Settings.Services[to.Service]; configured {
		request.Type = found.Type
	}
	response, err := message.Run(request)
	if err != nil {
		return nil, err
	}
	if response.Message == nil {
		return nil, &templateError{response.Problem}
	}
	return response.Message, nil
}

// Send renders a template and sends it once. The key is a new one, so that receivers
// take it for another message than those of the agent.
func (t *Trial) Send(ctx context.Context, template string, to Destination) error {
	found, known := t.Settings.Services[to.Service]
	if !known {
		return fmt.Errorf("there is no service %q: there are %s", to.Service, names(t.Settings.Services))
	}
	rendered, err := t.Render(template, to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return found.Send(ctx, service.Message{
		Service: to.Service, Recipient: to.Recipient, Text: rendered.Text, Section: rendered.Section, Template: template, Key: rand.Text(), At: time.Now(),
	})
}

// Close closes the connections of services.
func (t *Trial) Close() { t.Settings.clients.Close() }

// request is what all requests of the trial have. Commits are not read: a template that
// uses one has an error that names it.
func (t *Trial) request(object *unstructured.Unstructured, texts []string) (message.Request, error) {
	request := message.Request{Context: t.Settings.Context, Edge: t.Edge}
	if object == nil {
		return request, errors.New("there is no Application")
	}
	var err error
	if request.Object, err = json.Marshal(object.Object); err != nil {
		return request, fmt.Errorf("encode the Application: %w", err)
	}
	if t.Project != nil {
		if request.Project, err = json.Marshal(t.Project.Object); err != nil {
			return request, fmt.Errorf("encode the AppProject: %w", err)
		}
	}
	if strings.Contains(strings.Join(texts, "\n"), "secrets") {
		request.Secrets = t.Settings.secrets
	}
	return request, nil
}
