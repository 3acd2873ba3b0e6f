package service

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// mattermostOptions are those of Mattermost.
type mattermostOptions struct {
	APIURL string `json:"apiURL"`
	Token  string `json:"token"`
	httpOptions
}

// mattermost posts messages to channels.
type mattermost struct {
	options mattermostOptions
	client  *http.Client
}

func newMattermost(options decoder, clients *Clients) (Service, error) {
	m := &mattermost{}
	if err := options(&m.options); err != nil {
		return nil, err
	}
	m.options.APIURL = strings.TrimRight(m.options.APIURL, "/")
	if err := checkAddress("apiURL", m.options.APIURL); err != nil {
		return nil, err
	}
	m.client = clients.of(m.options.httpOptions)
	return m, nil
}

// Send posts a message to the channel of an ID. A pending post ID makes the server drop
// a second one for a while.
func (m *mattermost) Send(ctx context.Context, message Message) error {
	var own struct {
		Attachments string `json:"attachments"`
	}
	if _, err := section(&message, &own); err != nil {
		return err
	}
	attachments, err := document(&message, "mattermost.attachments", own.Attachments)
	if err != nil {
		return err
	}
	if attachments == nil {
		attachments = json.RawMessage("[]")
	}
	request, err := postJSON(m.options.APIURL+"/api/v4/posts", map[string]any{
		"channel_id": message.Recipient, "message": message.Text, "pending_post_id": message.Key, "props": map[string]any{"attachments": attachments},
	})
	if err != nil {
		return err
	}
	request.header.Set("Authorization", "Bearer "+m.options.Token)
	return request.do(ctx, m.client)
}

// telegramOptions are those of Telegram. The address is ours to set for tests and for a
// server of one's own.
type telegramOptions struct {
	Token  string `json:"token"`
	APIURL string `json:"apiURL"`
	httpOptions
}

// telegram sends messages by a bot.
type telegram struct {
	options telegramOptions
	client  *http.Client
}

func newTelegram(options decoder, clients *Clients) (Service, error) {
	t := &telegram{}
	if err := options(&t.options); err != nil {
		return nil, err
	}
	t.options.APIURL = strings.TrimRight(cmp.Or(t.options.APIURL, "https://api.telegram.org"), "/")
	if err := checkAddress("apiURL", t.options.APIURL); err != nil {
		return nil, err
	}
	t.client = clients.of(t.options.httpOptions)
	return t, nil
}

// Send sends a message to a channel by its name, or to a group by its number, which
// begins with a dash and can have a topic after a bar.
func (t *telegram) Send(ctx context.Context, message Message) error {
	body := map[string]any{"chat_id": "@" + message.Recipient, "text": message.Text, "parse_mode": "Markdown"}
	if strings.HasPrefix(message.Recipient, "-") {
		group, topic, hasTopic := strings.Cut(message.Recipient, "|")
		number, err := strconv.ParseInt(group, 10, 64)
		if err != nil {
			return permanent("the recipient %q is no number of a group", message.Recipient)
		}
		body["chat_id"] = number
		if hasTopic {
			thread, err := strconv.Atoi(topic)
			if err != nil {
				return permanent("the recipient %q has no number of a topic", message.Recipient)
			}
			body["message_thread_id"] = thread
		}
	}
	request, err := postJSON(t.options.APIURL+"/bot"+url.PathEscape(t.options.Token)+"/sendMessage", body)
	if err != nil {
		return err
	}
	return request.do(ctx, t.client)
}

// googleChatOptions are those of Google Chat.
type googleChatOptions struct {
	Webhooks map[string]string `json:"webhooks"`
	httpOptions
}

// googleChatSection is the part of templates for Google Chat. Cards are YAML.
type googleChatSection struct {
	Cards     string `json:"cards"`
	CardsV2   string `json:"cardsV2"`
	ThreadKey string `json:"threadKey"`
}

// googleChat sends messages to spaces.
type googleChat struct {
	options googleChatOptions
	client  *http.Client
}

func newGoogleChat(options decoder, clients *Clients) (Service, error) {
	g := &googleChat{}
	if err := options(&g.options); err != nil {
		return nil, err
	}
	for _, address := range g.options.Webhooks {
		if err := checkAddress("webhooks", address); err != nil {
			return nil, err
		}
	}
	g.client = clients.of(g.options.httpOptions)
	return g, nil
}

// Send sends a message to the space of a webhook. A request ID makes the server drop a
// second one.
func (g *googleChat) Send(ctx context.Context, message Message) error {
	address, known := g.options.Webhooks[message.Recipient]
	if !known {
		return permanent("the option webhooks has no recipient %q", message.Recipient)
	}
	var own googleChatSection
	if _, err := section(&message, &own); err != nil {
		return err
	}
	body, err := own.body(&message)
	if err != nil {
		return err
	}
	at, err := url.Parse(address)
	if err != nil {
		return permanent("the address of the webhook is invalid")
	}
	query := at.Query()
	query.Set("requestId", message.Key)
	if own.ThreadKey != "" {
		query.Set("threadKey", own.ThreadKey)
		query.Set("messageReplyOption", "REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD")
	}
	at.RawQuery = query.Encode()
	request, err := postJSON(at.String(), body)
	if err != nil {
		return err
	}
	return request.do(ctx, g.client)
}

// body returns the cards of a message, or its text if there are none.
func (s *googleChatSection) body(message *Message) (map[string]any, error) {
	body := map[string]any{}
	var cards []any
	if err := yaml.Unmarshal([]byte(s.Cards), &cards); err != nil {
		return nil, permanent("googlechat.cards of the template %s is no YAML after it was rendered", message.Template)
	}
	if len(cards) > 0 {
		body["cards"] = cards
	}
	var modern []any
	if err := yaml.Unmarshal([]byte(s.CardsV2), &modern); err != nil {
		return nil, permanent("googlechat.cardsV2 of the template %s is no YAML after it was rendered", message.Template)
	}
	for i, card := range modern {
		modern[i] = map[string]any{"cardId": message.Key + "-" + strconv.Itoa(i), "card": card}
	}
	if len(modern) > 0 {
		body["cardsV2"] = modern
	}
	if len(body) == 0 {
		body["text"] = message.Text
	}
	return body, nil
}
