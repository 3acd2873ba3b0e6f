package service

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// alertName is the label that every alert has.
const alertName = "alertname"

// alertmanagerOptions are those of Alertmanager. The time of an attempt is that of all
// services.
type alertmanagerOptions struct {
	Targets     []string   `json:"targets"`
	Scheme      string     `json:"scheme"`
	APIPath     string     `json:"apiPath"`
	BasicAuth   *basicAuth `json:"basicAuth"`
	BearerToken string     `json:"bearerToken"`
	Timeout     int        `json:"timeout"`
	httpOptions
}

// alertmanagerSection is the part of templates for Alertmanager.
type alertmanagerSection struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	GeneratorURL string            `json:"generatorURL"`
}

// alert is the body of a request. Alertmanager recognises an alert by its labels.
type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
	StartsAt     time.Time         `json:"startsAt"`
}

// alertmanager sends alerts to all members of a cluster.
type alertmanager struct {
	options alertmanagerOptions
	client  *http.Client
}

func newAlertmanager(options decoder, clients *Clients) (Service, error) {
	a := &alertmanager{}
	if err := options(&a.options); err != nil {
		return nil, err
	}
	if len(a.options.Targets) == 0 {
		return nil, errors.New("the option targets is missing: list the addresses, such as alertmanager.monitoring:9093")
	}
	a.options.Scheme = cmp.Or(a.options.Scheme, "http")
	a.options.APIPath = cmp.Or(a.options.APIPath, "/api/v2/alerts")
	for _, target := range a.options.Targets {
		if err := checkAddress("targets", a.address(target)); err != nil {
			return nil, err
		}
	}
	a.client = clients.of(a.options.httpOptions)
	return a, nil
}

// address is that of a target.
func (a *alertmanager) address(target string) string {
	return a.options.Scheme + "://" + target + a.options.APIPath
}

// Send sends an alert to every target. One that accepts it is enough: members of a
// cluster share their alerts.
func (a *alertmanager) Send(ctx context.Context, message Message) error {
	var own alertmanagerSection
	if has, err := section(&message, &own); err != nil {
		return err
	} else if !has || len(own.Labels) == 0 {
		return permanent("the template %s has no labels in its section alertmanager", message.Template)
	}
	if own.Labels[alertName] == "" {
		own.Labels[alertName] = message.Template
	}
	body := []alert{{Labels: own.Labels, Annotations: own.Annotations, GeneratorURL: webAddress(own.GeneratorURL), StartsAt: message.At}}
	failures := make([]error, len(a.options.Targets))
	var sending sync.WaitGroup
	for i, target := range a.options.Targets {
		sending.Go(func() { failures[i] = a.post(ctx, target, body) })
	}
	sending.Wait()
	for _, err := range failures {
		if err == nil {
			return nil
		}
	}
	return failures[0]
}

// post sends an alert to one target.
func (a *alertmanager) post(ctx context.Context, target string, body []alert) error {
	request, err := postJSON(a.address(target), body)
	if err != nil {
		return err
	}
	if a.options.BasicAuth != nil {
		a.options.BasicAuth.set(request.header)
	} else if a.options.BearerToken != "" {
		request.header.Set("Authorization", "Bearer "+a.options.BearerToken)
	}
	return request.do(ctx, a.client)
}

// webAddress makes an address for browsers of that of a repository.
func webAddress(address string) string {
	rest, isSSH := strings.CutPrefix(address, "git@")
	if !isSSH {
		return address
	}
	return "https://" + strings.Replace(rest, ":", "/", 1)
}
