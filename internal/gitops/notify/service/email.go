package service

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// emailOptions are those of a mail server.
type emailOptions struct {
	Host               string `json:"host"`
	Port               int    `json:"port"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify"`
	Username           string `json:"username"`
	Password           string `json:"password"`
	From               string `json:"from"`
	HTML               bool   `json:"html"`
}

// emailSection is the part of templates for mail.
type emailSection struct {
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

// email sends mail by SMTP.
type email struct {
	options emailOptions
	from    *mail.Address
	clients *Clients
}

// smtpsPort is the port on which TLS comes first.
const smtpsPort = 465

func newEmail(options decoder, clients *Clients) (Service, error) {
	e := &email{clients: clients}
	if err := options(&e.options); err != nil {
		return nil, err
	}
	if e.options.Host == "" {
		return nil, errors.New("the option host is missing")
	}
	e.options.Port = cmp.Or(e.options.Port, 25)
	var err error
	if e.from, err = mail.ParseAddress(e.options.From); err != nil {
		return nil, errors.New("the option from has to be the address of a sender, such as slipway@example.com")
	}
	return e, nil
}

// Send sends a mail to one recipient, or to several that are separated by commas.
func (e *email) Send(ctx context.Context, message Message) error {
	to, err := mail.ParseAddressList(message.Recipient)
	if err != nil {
		return permanent("the recipient %q is no mail address", message.Recipient)
	}
	var own emailSection
	if _, err := section(&message, &own); err != nil {
		return err
	}
	content := e.compose(&message, &own, to)
	client, err := e.connect(ctx)
	if err != nil {
		return smtpError(err)
	}
	defer client.Close()
	if err := e.deliver(client, to, content); err != nil {
		return smtpError(err)
	}
	// The server has the mail: an error of the farewell changes nothing.
	_ = client.Quit()
	return nil
}

// connect opens a session: with TLS from the start on its port, else with STARTTLS if
// the server offers it.
func (e *email) connect(ctx context.Context) (*smtp.Client, error) {
	address := net.JoinHostPort(e.options.Host, strconv.Itoa(e.options.Port))
	dialer := e.clients.policy.Dialer(net.Dialer{Timeout: connectTimeout})
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := connection.SetDeadline(deadline); err != nil {
			_ = connection.Close()
			return nil, err
		}
	}
	secured := &tls.Config{ServerName: e.options.Host, InsecureSkipVerify: e.options.InsecureSkipVerify} //nolint:gosec // an option of the service
	if e.options.Port == smtpsPort {
		connection = tls.Client(connection, secured)
	}
	client, err := smtp.NewClient(connection, e.options.Host)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	if offered, _ := client.Extension("STARTTLS"); offered && e.options.Port != smtpsPort {
		if err := client.StartTLS(secured); err != nil {
			_ = client.Close()
			return nil, err
		}
	}
	return client, nil
}

// deliver authenticates and hands the mail over.
func (e *email) deliver(client *smtp.Client, to []*mail.Address, content []byte) error {
	if e.options.Username != "" {
		if err := client.Auth(smtp.PlainAuth("", e.options.Username, e.options.Password, e.options.Host)); err != nil {
			return err
		}
	}
	if err := client.Mail(e.from.Address); err != nil {
		return err
	}
	for _, one := range to {
		if err := client.Rcpt(one.Address); err != nil {
			return err
		}
	}
	data, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := data.Write(content); err != nil {
		return err
	}
	return data.Close()
}

// compose writes the mail. Its Message-ID is the key, so that mailboxes recognise a
// second copy. The body is base64: lines and characters of templates need no care then.
func (e *email) compose(message *Message, own *emailSection, to []*mail.Address) []byte {
	recipients := make([]string, len(to))
	for i, one := range to {
		recipients[i] = one.String()
	}
	kind := "text/plain"
	if e.options.HTML {
		kind = "text/html"
	}
	_, domain, _ := strings.Cut(e.from.Address, "@")
	var content bytes.Buffer
	for _, line := range [][2]string{
		{"From", e.from.String()}, {"To", strings.Join(recipients, ", ")},
		{"Subject", mime.QEncoding.Encode("utf-8", strings.Join(strings.Fields(own.Subject), " "))},
		{"Date", message.At.UTC().Format(time.RFC1123Z)}, {"Message-ID", "<" + message.Key + "@" + domain + ">"},
		{"MIME-Version", "1.0"}, {"Content-Type", kind + "; charset=utf-8"}, {"Content-Transfer-Encoding", "base64"},
		{"Auto-Submitted", "auto-generated"},
	} {
		fmt.Fprintf(&content, "%s: %s\r\n", line[0], line[1])
	}
	content.WriteString("\r\n")
	encoded := base64.StdEncoding.EncodeToString([]byte(cmp.Or(own.Body, message.Text)))
	for len(encoded) > 0 {
		line := encoded[:min(len(encoded), 76)]
		encoded = encoded[len(line):]
		content.WriteString(line + "\r\n")
	}
	return content.Bytes()
}

// smtpError makes replies in the 500s permanent: the server would refuse again.
func smtpError(err error) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok && reply.Code/100 == 5 {
		return permanent("the mail server refuses: %d %s", reply.Code, reply.Msg)
	}
	return withoutAddress(err)
}
