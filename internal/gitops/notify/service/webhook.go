package service

import (
	"cmp"
	"context"
	"net/http"
	"strings"
)

// idempotencyHeader has the key of a message, by which a receiver can recognise one that
// it has already.
const idempotencyHeader = "Idempotency-Key"

// header is a header of requests.
type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// basicAuth is a name and a password.
type basicAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// set authenticates a request.
func (b *basicAuth) set(headers http.Header) {
	if b != nil {
		request := http.Request{Header: headers}
		request.SetBasicAuth(b.Username, b.Password)
	}
}

// webhookOptions are those of a webhook. Attempts are those of all services.
type webhookOptions struct {
	URL          string     `json:"url"`
	Headers      []header   `json:"headers"`
	BasicAuth    *basicAuth `json:"basicAuth"`
	RetryWaitMin any        `json:"retryWaitMin"`
	RetryWaitMax any        `json:"retryWaitMax"`
	RetryMax     any        `json:"retryMax"`
	httpOptions
}

// webhookSection is the part of templates for one webhook.
type webhookSection struct {
	Method string `json:"method"`
	Body   string `json:"body"`
	Path   string `json:"path"`
}

// webhook sends requests as templates describe them.
type webhook struct {
	options webhookOptions
	client  *http.Client
}

func newWebhook(options decoder, clients *Clients) (Service, error) {
	w := &webhook{}
	if err := options(&w.options); err != nil {
		return nil, err
	}
	if err := checkAddress("url", w.options.URL); err != nil {
		return nil, err
	}
	w.client = clients.of(w.options.httpOptions)
	return w, nil
}

// Send sends the message as the body, or what the section of the templates has.
func (w *webhook) Send(ctx context.Context, message Message) error {
	request := exchange{method: http.MethodGet, url: w.options.URL, body: []byte(message.Text), header: http.Header{}}
	var own webhookSection
	has, err := section(&message, &own)
	if err != nil {
		return err
	}
	if has {
		request.method, request.body = cmp.Or(own.Method, request.method), []byte(own.Body)
		if own.Path != "" {
			request.url = strings.TrimRight(request.url, "/") + "/" + strings.TrimLeft(own.Path, "/")
		}
	}
	request.header.Set(idempotencyHeader, message.Key)
	for _, one := range w.options.Headers {
		request.header.Set(one.Name, one.Value)
	}
	w.options.BasicAuth.set(request.header)
	return request.do(ctx, w.client)
}
