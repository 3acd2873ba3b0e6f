package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Timestamp converts a time for a message; the zero time becomes nil.
func Timestamp(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}
