// A dispatcher in Go, with the stubs that protoc makes of our proto files: dispatcher HOST:PORT
//
// It prints a line for each thing it was answered, as the one in Java does, and then what reflection says.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	storage "delayed_tracker/snapshot/v1"
	pb "delayed_tracker/v1"
)

// Long enough that a message is not due before it comes.
const delay = 5 * time.Second

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dispatch(ctx, connection)
	askLedgers(ctx, connection)
	reflect(ctx, connection)
}

func dispatch(ctx context.Context, connection *grpc.ClientConn) {
	service := pb.NewDelayedDeliveryTrackerServiceClient(connection)
	tracker := &pb.TrackerRef{Topic: "persistent://shop/orders/events", Subscription: "in Go"}
	opened, err := service.OpenTracker(ctx, &pb.OpenTrackerRequest{
		Tracker: tracker, Owner: "Go", MarkDelete: &pb.Position{LedgerId: 1, EntryId: -1},
	})
	check(err)
	deadline := time.Now().Add(delay).UnixMilli()
	// The type of a column is that of the single value: nothing is converted.
	ledger, entry := opened.GetReplayFrom().GetLedgerId(), opened.GetReplayFrom().GetEntryId()
	added, err := service.AddMessages(ctx, &pb.AddMessagesRequest{
		Tracker: tracker, Epoch: opened.Epoch,
		DeliverAtMs: []int64{deadline, deadline}, LedgerIds: []int64{ledger, 1<<63 - 1}, EntryIds: []int64{entry, 1<<32 - 1},
	})
	check(err)
	fmt.Println("added", added.AddedCount)
	due, err := service.PollScheduledMessages(ctx, &pb.PollScheduledMessagesRequest{
		Tracker: tracker, Epoch: opened.Epoch, MaxMessages: 10, WaitMs: 20_000,
	})
	check(err)
	for row := range due.LedgerIds {
		fmt.Printf("due %d:%d\n", due.LedgerIds[row], due.EntryIds[row])
	}
	acked, err := service.AckMessages(ctx, &pb.AckMessagesRequest{
		Tracker: tracker, Epoch: opened.Epoch, LeaseId: due.LeaseId, LedgerIds: due.LedgerIds, EntryIds: due.EntryIds,
	})
	check(err)
	fmt.Println("acked", acked.AckedCount)
	_, err = service.AddMessages(ctx, &pb.AddMessagesRequest{
		Tracker: tracker, Epoch: opened.Epoch,
		DeliverAtMs: []int64{deadline}, LedgerIds: []int64{-1}, EntryIds: []int64{0},
	})
	fmt.Println("refused", reasonOf(err))
	segment := &storage.SnapshotSegment{Indexes: []*storage.DelayedIndex{
		{Timestamp: proto.Uint64(1), LedgerId: proto.Uint64(2), EntryId: proto.Uint64(3)},
	}}
	stored, err := proto.Marshal(segment)
	check(err)
	fmt.Printf("stored %x\n", stored)
}

func askLedgers(ctx context.Context, connection *grpc.ClientConn) {
	_, err := pb.NewLedgerServiceClient(connection).SeekByTime(ctx, &pb.SeekByTimeRequest{Topic: "t", TimestampMs: 1})
	fmt.Println("refused", reasonOf(err))
}

func reflect(ctx context.Context, connection *grpc.ClientConn) {
	stream, err := reflection.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	check(err)
	ask := func(request *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		check(stream.Send(request))
		answer, err := stream.Recv()
		check(err)
		return answer
	}
	listed := ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_ListServices{},
	})
	for _, service := range listed.GetListServicesResponse().Service {
		fmt.Println("service", service.Name)
	}
	described := ask(&reflection.ServerReflectionRequest{
		MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "grpc.reflection.v1.ServerReflection",
		},
	})
	served := &descriptorpb.FileDescriptorProto{}
	check(proto.Unmarshal(described.GetFileDescriptorResponse().FileDescriptorProto[0], served))
	official := protodesc.ToFileDescriptorProto(reflection.File_grpc_reflection_v1_reflection_proto)
	fmt.Println("reflection is the official one:", proto.Equal(withoutJSONNames(served), withoutJSONNames(official)))
}

// What protoc derives from the names of fields, some compilers write down.
func withoutJSONNames(file *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	for _, message := range file.MessageType {
		for _, field := range message.Field {
			field.JsonName = nil
		}
	}
	return file
}

func reasonOf(err error) string {
	refused := status.Convert(err)
	for _, detail := range refused.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return fmt.Sprintf("%s %s %s", refused.Code(), info.Reason, info.Metadata["field"])
		}
	}
	return fmt.Sprint("without a reason: ", err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
