package notify

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/gitops/notify/message"
)

// RecordAnnotation has what was sent about an Application. Name, keys and times are those
// of Argo CD, so that neither sends again what the other has sent.
const RecordAnnotation = "notified.notifications.argoproj.io"

const (
	// maxRecord is how many entries are kept beyond those that count now. The oldest go
	// first.
	maxRecord = 100
	// maxRecordBytes bounds what is read: annotations of an object have 256 KiB.
	maxRecordBytes = 256 << 10
)

// record has an entry for each message: the time in seconds at which it was sent. A
// negative number is an intent: the message may have been sent, and may not. Argo CD's
// controller takes both for sent.
type record map[string]int64

// senderDigits are the last digits of an intent. They identify the process that has it.
const senderDigits = 1_000_000

// readRecord reads the annotation. One that cannot be read is empty, as with Argo CD.
func readRecord(text string) record {
	read := record{}
	if len(text) > maxRecordBytes || json.Unmarshal([]byte(text), &read) != nil || read == nil {
		return record{}
	}
	return read
}

// String returns the annotation.
func (r record) String() string {
	text, _ := json.Marshal(r) // a map of numbers can be encoded
	return string(text)
}

// entryKey is the key of a message in the record: that of Argo CD.
func entryKey(trigger string, result message.Result, to Destination) string {
	key := suffixKey(trigger, result, to)
	if result.OncePer != "" {
		key = result.OncePer + ":" + key
	}
	return key
}

// suffixKey is the part of a key that does not depend on the value of oncePer.
func suffixKey(trigger string, result message.Result, to Destination) string {
	return strings.Join([]string{trigger, result.Key, to.Service, to.Recipient}, ":")
}

// intend adds an intent of a process. One that is there already keeps its time.
func (r record) intend(key string, sender int64, now time.Time) {
	at := now.Unix()
	if known := r[key]; known < 0 {
		at = r.intendedAt(key).Unix()
	}
	r[key] = -(at*senderDigits + sender)
}

// intendedAt returns when a message was first due.
func (r record) intendedAt(key string) time.Time { return time.Unix(-r[key]/senderDigits, 0) }

// sender returns which process has an intent.
func (r record) sender(key string) int64 { return -r[key] % senderDigits }

// hasIntent reports whether a message may have been sent.
func (r record) hasIntent(key string) bool { return r[key] < 0 }

// hasSent reports whether a message was sent.
func (r record) hasSent(key string) bool { return r[key] > 0 }

// intents returns the keys of intents that end in a suffix.
func (r record) intents(suffix string) []string {
	var keys []string
	for key, value := range r {
		if value < 0 && (key == suffix || strings.HasSuffix(key, ":"+suffix)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// trim drops the oldest entries. Those that count now stay, however many they are:
// without them their messages would be sent again.
func (r record) trim(current map[string]bool, now time.Time) {
	var old []string
	for _, key := range slices.Sorted(maps.Keys(r)) {
		switch {
		case current[key]:
		case r[key] > 0:
			old = append(old, key)
		case now.Sub(r.intendedAt(key)) > giveUpAfter:
			delete(r, key) // of a trigger or a subscription that is gone
		}
	}
	slices.SortStableFunc(old, func(x, y string) int { return int(r[x] - r[y]) })
	for _, key := range old[:max(0, len(old)-maxRecord)] {
		delete(r, key)
	}
}

// senderOf is the number of a process in intents. A replica that is started again under
// the same name is the same sender: its former process is gone.
func senderOf(identity string) int64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(identity))
	return int64(sum.Sum32() % senderDigits)
}
