package service

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// maxThreads bounds the threads that are remembered.
const maxThreads = 1000

// slackOptions are those of Slack. The secret of its bot is not used here.
type slackOptions struct {
	Username      string   `json:"username"`
	Icon          string   `json:"icon"`
	Token         string   `json:"token"`
	SigningSecret string   `json:"signingSecret"`
	Channels      []string `json:"channels"`
	APIURL        string   `json:"apiURL"`
	DisableUnfurl bool     `json:"disableUnfurl"`
	httpOptions
}

// slackSection is the part of templates for Slack.
type slackSection struct {
	Username        string `json:"username"`
	Icon            string `json:"icon"`
	Attachments     string `json:"attachments"`
	Blocks          string `json:"blocks"`
	GroupingKey     string `json:"groupingKey"`
	NotifyBroadcast bool   `json:"notifyBroadcast"`
	// DeliveryPolicy is Post, PostAndUpdate or Update.
	DeliveryPolicy string `json:"deliveryPolicy"`
}

// slackThread is the first message of those with one grouping key.
type slackThread struct{ channel, timestamp string }

// slack posts messages by Slack's Web API.
type slack struct {
	options slackOptions
	client  *http.Client

	mu sync.Mutex
	// threads are by recipient and grouping key. They are lost with the process, and
	// the next message begins another thread.
	threads map[[2]string]slackThread
}

func newSlack(options decoder, clients *Clients) (Service, error) {
	s := &slack{threads: map[[2]string]slackThread{}}
	if err := options(&s.options); err != nil {
		return nil, err
	}
	s.options.APIURL = strings.TrimRight(cmp.Or(s.options.APIURL, "https://slack.com/api"), "/")
	if err := checkAddress("apiURL", s.options.APIURL); err != nil {
		return nil, err
	}
	s.client = clients.of(s.options.httpOptions)
	return s, nil
}

// emoji is an icon that is no address.
var emoji = regexp.MustCompile(`^:.+:$`)

// Send posts a message to a channel, and updates the first one of its thread if the
// delivery policy has that.
func (s *slack) Send(ctx context.Context, message Message) error {
	var own slackSection
	if _, err := section(&message, &own); err != nil {
		return err
	}
	body, err := s.body(&message, &own)
	if err != nil {
		return err
	}
	at := [2]string{message.Recipient, own.GroupingKey}
	thread, known := s.thread(at)
	if !known || own.DeliveryPolicy != "Update" {
		posted := body
		posted.Channel, posted.Broadcast, posted.ThreadTimestamp = message.Recipient, own.NotifyBroadcast, thread.timestamp
		result, err := s.call(ctx, "chat.postMessage", posted)
		if err != nil {
			return err
		}
		if own.GroupingKey != "" && !known {
			s.remember(at, slackThread{channel: result.Channel, timestamp: result.Timestamp})
		}
	}
	if known && (own.DeliveryPolicy == "Update" || own.DeliveryPolicy == "PostAndUpdate") {
		updated := body
		updated.Channel, updated.Timestamp = thread.channel, thread.timestamp
		_, err = s.call(ctx, "chat.update", updated)
	}
	return err
}

// thread returns the thread of a grouping key.
func (s *slack) thread(at [2]string) (slackThread, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.threads[at]
	return found, known
}

// remember stores a thread. Any other makes room, if there are too many.
func (s *slack) remember(at [2]string, thread slackThread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.threads) >= maxThreads {
		for one := range s.threads {
			delete(s.threads, one)
			break
		}
	}
	s.threads[at] = thread
}

// slackMessage is the body of Slack's methods.
type slackMessage struct {
	Channel         string          `json:"channel"`
	Text            string          `json:"text"`
	Timestamp       string          `json:"ts,omitempty"`
	ThreadTimestamp string          `json:"thread_ts,omitempty"`
	Broadcast       bool            `json:"reply_broadcast,omitempty"`
	Username        string          `json:"username,omitempty"`
	IconEmoji       string          `json:"icon_emoji,omitempty"`
	IconURL         string          `json:"icon_url,omitempty"`
	Attachments     json.RawMessage `json:"attachments,omitempty"`
	Blocks          json.RawMessage `json:"blocks,omitempty"`
	UnfurlLinks     *bool           `json:"unfurl_links,omitempty"`
	UnfurlMedia     *bool           `json:"unfurl_media,omitempty"`
}

// body returns what post and update have in common.
func (s *slack) body(message *Message, own *slackSection) (slackMessage, error) {
	body := slackMessage{Text: message.Text, Username: cmp.Or(own.Username, s.options.Username)}
	switch icon := cmp.Or(own.Icon, s.options.Icon); {
	case emoji.MatchString(icon):
		body.IconEmoji = icon
	case checkAddress("icon", icon) == nil:
		body.IconURL = icon
	}
	if s.options.DisableUnfurl {
		body.UnfurlLinks, body.UnfurlMedia = new(bool), new(bool)
	}
	var err error
	if body.Attachments, err = document(message, "slack.attachments", own.Attachments); err != nil {
		return body, err
	}
	body.Blocks, err = document(message, "slack.blocks", own.Blocks)
	return body, err
}

// slackResult is a response of Slack.
type slackResult struct {
	OK        bool   `json:"ok"`
	Error     string `json:"error"`
	Channel   string `json:"channel"`
	Timestamp string `json:"ts"`
}

// call calls a method of the API.
func (s *slack) call(ctx context.Context, method string, body slackMessage) (slackResult, error) {
	var result slackResult
	request, err := postJSON(s.options.APIURL+"/"+method, body)
	if err != nil {
		return result, err
	}
	request.header.Set("Content-Type", "application/json; charset=utf-8")
	request.header.Set("Authorization", "Bearer "+s.options.Token)
	if err := request.do(ctx, s.client); err != nil {
		return result, err
	}
	if err := request.decode(&result); err != nil {
		return result, err
	}
	switch {
	case result.OK:
		return result, nil
	case result.Error == "internal_error" || result.Error == "fatal_error" || result.Error == "service_unavailable":
		return result, &BusyError{After: retryAfter("")}
	}
	return result, permanent("Slack refuses the message: %s", result.Error)
}
