; ModuleID = 'scan_frames'
source_filename = "<string>"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

@.const.scan_frames = internal constant [12 x i8] c"scan_frames\00"
@_ZN08NumbaEnv8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE = common local_unnamed_addr global ptr null
@".const.missing Environment: _ZN08NumbaEnv8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE" = internal constant [202 x i8] c"missing Environment: _ZN08NumbaEnv8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE\00"
@PyExc_TypeError = external global i8
@".const.can't unbox array from PyObject into native value.  The object maybe of a different type" = internal constant [89 x i8] c"can't unbox array from PyObject into native value.  The object maybe of a different type\00"
@".const.`env.consts` is NULL in `read_const`" = internal constant [37 x i8] c"`env.consts` is NULL in `read_const`\00"
@.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3 = internal constant [32 x i8] c"\80\04\95\15\00\00\00\00\00\00\00\8C\05numpy\94\8C\07ndarray\94\93\94."
@.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3.sha1 = internal constant [20 x i8] c"\DF\BC\FD\D3\9F\CB&\F4\D0\C6\80\95D\87\B8\C0\B5;\B8\A3"
@".const.Error creating Python tuple from runtime exception arguments" = internal constant [61 x i8] c"Error creating Python tuple from runtime exception arguments\00"
@".const.Error creating Python tuple from runtime exception arguments.1" = internal constant [61 x i8] c"Error creating Python tuple from runtime exception arguments\00"
@".const.<numba.core.cpu.CPUContext>" = internal constant [28 x i8] c"<numba.core.cpu.CPUContext>\00"
@_ZN08NumbaEnv5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v2B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29 = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v3B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29 = common local_unnamed_addr global ptr null
@.const.pickledata.331b8563bdb9dac81b38422273052c486fc1706b = internal constant [77 x i8] c"\80\04\95B\00\00\00\00\00\00\00\8C\08builtins\94\8C\0AValueError\94\93\94\8C\1Fnegative dimensions not allowed\94\85\94N\87\94."
@.const.pickledata.331b8563bdb9dac81b38422273052c486fc1706b.sha1 = internal constant [20 x i8] c"3\1B\85c\BD\B9\DA\C8\1B8B\22s\05,Ho\C1pk"
@.const.picklebuf.331b8563bdb9dac81b38422273052c486fc1706b = internal constant { ptr, i32, ptr, ptr, i32 } { ptr @.const.pickledata.331b8563bdb9dac81b38422273052c486fc1706b, i32 77, ptr @.const.pickledata.331b8563bdb9dac81b38422273052c486fc1706b.sha1, ptr null, i32 0 }
@.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209 = internal constant [86 x i8] c"\80\04\95K\00\00\00\00\00\00\00\8C\08builtins\94\8C\0BMemoryError\94\93\94\8C'Allocation failed (probably too large).\94\85\94N\87\94."
@.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.sha1 = internal constant [20 x i8] c"\BA(\9D\81\F0\\p \F3G|\15sH\04\DFe\AB\E2\09"
@.const.picklebuf.ba289d81f05c7020f3477c15734804df65abe209 = internal constant { ptr, i32, ptr, ptr, i32 } { ptr @.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209, i32 86, ptr @.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.sha1, ptr null, i32 0 }
@_ZN08NumbaEnv5numba2np8arrayobj18ol_array_zero_fill12_3clocals_3e4implB2v6B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE5ArrayIbLi1E1C7mutable7alignedE = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v7B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29 = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v8B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29 = common local_unnamed_addr global ptr null
@.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57 = internal constant [137 x i8] c"\80\04\95~\00\00\00\00\00\00\00\8C\08builtins\94\8C\0AValueError\94\93\94\8C[array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.\94\85\94N\87\94."
@.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57.sha1 = internal constant [20 x i8] c"X\E1N\CC\B5\07\B1\E0 i\81t\02#\E6\85\CB\8C<W"
@.const.picklebuf.58e14eccb507b1e0206981740223e685cb8c3c57 = internal constant { ptr, i32, ptr, ptr, i32 } { ptr @.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57, i32 137, ptr @.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57.sha1, ptr null, i32 0 }
@.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.15 = internal constant [86 x i8] c"\80\04\95K\00\00\00\00\00\00\00\8C\08builtins\94\8C\0BMemoryError\94\93\94\8C'Allocation failed (probably too large).\94\85\94N\87\94."
@.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.sha1.16 = internal constant [20 x i8] c"\BA(\9D\81\F0\\p \F3G|\15sH\04\DFe\AB\E2\09"
@.const.picklebuf.ba289d81f05c7020f3477c15734804df65abe209.11 = internal constant { ptr, i32, ptr, ptr, i32 } { ptr @.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.15, i32 86, ptr @.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.sha1.16, ptr null, i32 0 }
@_ZN08NumbaEnv5numba2np8arrayobj18ol_array_zero_fill12_3clocals_3e4implB2v9B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE5ArrayIjLi1E1C7mutable7alignedE = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB3v22B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE8UniTupleIxLi2EE16class_28int64_29 = common local_unnamed_addr global ptr null
@.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57.24 = internal constant [137 x i8] c"\80\04\95~\00\00\00\00\00\00\00\8C\08builtins\94\8C\0AValueError\94\93\94\8C[array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size.\94\85\94N\87\94."
@.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57.sha1.25 = internal constant [20 x i8] c"X\E1N\CC\B5\07\B1\E0 i\81t\02#\E6\85\CB\8C<W"
@.const.picklebuf.58e14eccb507b1e0206981740223e685cb8c3c57.20 = internal constant { ptr, i32, ptr, ptr, i32 } { ptr @.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57.24, i32 137, ptr @.const.pickledata.58e14eccb507b1e0206981740223e685cb8c3c57.sha1.25, ptr null, i32 0 }
@PyExc_RuntimeError = external global i8
@_ZN08NumbaEnv5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj = common local_unnamed_addr global ptr null
@.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.22 = internal constant [86 x i8] c"\80\04\95K\00\00\00\00\00\00\00\8C\08builtins\94\8C\0BMemoryError\94\93\94\8C'Allocation failed (probably too large).\94\85\94N\87\94."
@.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.sha1.23 = internal constant [20 x i8] c"\BA(\9D\81\F0\\p \F3G|\15sH\04\DFe\AB\E2\09"
@.const.picklebuf.ba289d81f05c7020f3477c15734804df65abe209.21 = internal constant { ptr, i32, ptr, ptr, i32 } { ptr @.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.22, i32 86, ptr @.const.pickledata.ba289d81f05c7020f3477c15734804df65abe209.sha1.23, ptr null, i32 0 }
@_ZN08NumbaEnv8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth10_signed_32B3v26B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBEx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth21_scan_broker_metadataB3v27B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth22_scan_message_metadataB3v32B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExxy5ArrayIxLi2E1C7mutable7alignedE = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth4_tagB3v28B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth10_signed_32B3v33B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBEx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth18_has_key_and_valueB3v34B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx = common local_unnamed_addr global ptr null
@_ZN08NumbaEnv8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx = common local_unnamed_addr global ptr null

define range(i32 0, 2) i32 @_ZN8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE(ptr noalias writeonly captures(none) %retptr, ptr noalias writeonly captures(none) %excinfo, ptr %arg.octets.0, ptr readnone captures(none) %arg.octets.1, i64 %arg.octets.2, i64 %arg.octets.3, ptr readonly captures(none) %arg.octets.4, i64 %arg.octets.5.0, i64 %arg.octets.6.0, ptr %arg.start.0, ptr readnone captures(none) %arg.start.1, i64 %arg.start.2, i64 %arg.start.3, ptr readonly captures(none) %arg.start.4, i64 %arg.start.5.0, i64 %arg.start.6.0, ptr %arg.end.0, ptr readnone captures(none) %arg.end.1, i64 %arg.end.2, i64 %arg.end.3, ptr readonly captures(none) %arg.end.4, i64 %arg.end.5.0, i64 %arg.end.6.0) local_unnamed_addr {
B0:
  tail call void @NRT_incref(ptr %arg.octets.0)
  tail call void @NRT_incref(ptr %arg.start.0)
  tail call void @NRT_incref(ptr %arg.end.0)
  %.15.i.i = icmp slt i64 %arg.start.5.0, 0
  br i1 %.15.i.i, label %B0.if.if, label %B0.endif.endif.endif.i.i, !prof !0

B0.endif.endif.endif.i.i:                         ; preds = %B0
  %.7.i.i.i.i = tail call ptr @NRT_MemInfo_alloc_aligned(i64 %arg.start.5.0, i32 32), !noalias !1
  %.8.i.i.i.i = icmp eq ptr %.7.i.i.i.i, null
  br i1 %.8.i.i.i.i, label %B0.if.if, label %B0.endif.endif.i.i, !prof !0

B268:                                             ; preds = %B268.lr.ph, %B1213
  %.281717728 = phi i64 [ 0, %B268.lr.ph ], [ %.288, %B1213 ]
  %.288 = add nuw nsw i64 %.281717728, 1
  %.342 = getelementptr i64, ptr %arg.start.4, i64 %.281717728
  %.343 = load i64, ptr %.342, align 8
  %.370 = getelementptr i64, ptr %arg.end.4, i64 %.281717728
  %.371 = load i64, ptr %.370, align 8
  %.433 = getelementptr i64, ptr %17, i64 %.281717728
  store i64 %.371, ptr %.433, align 8
  %.485 = getelementptr i64, ptr %18, i64 %.281717728
  store i64 -1, ptr %.485, align 8
  %.512 = sub nsw i64 %.371, %.343
  %.513 = icmp sgt i64 %.512, 5
  br i1 %.513, label %B456.endif, label %B940

B648:                                             ; preds = %B542.endif.endif
  %.697 = add nsw i64 %.7.i, %.671
  tail call void @NRT_incref(ptr %arg.octets.0), !noalias !14
  %.44.i.not = icmp eq i64 %.134.i, 0
  br i1 %.44.i.not, label %B720, label %B110.i.preheader

B110.i.preheader:                                 ; preds = %B648
  br label %B110.i

B110.i:                                           ; preds = %B110.i.preheader, %B474.i
  %at.6.0.i = phi i64 [ %at.7.1.i, %B474.i ], [ %.671, %B110.i.preheader ]
  %flags.3.0.i = phi i64 [ %.226.i, %B474.i ], [ 1, %B110.i.preheader ]
  %timestamp.3.0.i = phi i64 [ %timestamp.2.1.i, %B474.i ], [ 0, %B110.i.preheader ]
  %index.3.0.i = phi i64 [ %index.2.1.i, %B474.i ], [ 0, %B110.i.preheader ]
  tail call void @NRT_incref(ptr %arg.octets.0), !noalias !17
  %.41.i.i.i = getelementptr i8, ptr %arg.octets.4, i64 %at.6.0.i
  %.42.i.i.i = load i8, ptr %.41.i.i.i, align 1, !noalias !20
  %.46.i.i.i = zext i8 %.42.i.i.i to i64
  %.58.i.i = add nsw i64 %at.6.0.i, 1
  %.67.i.i = icmp slt i8 %.42.i.i.i, 0
  br i1 %.67.i.i, label %B58.i.i, label %B110.endif.i

B58.i.i:                                          ; preds = %B110.i
  %.75.i.i = icmp slt i64 %.58.i.i, %.697
  br i1 %.75.i.i, label %B140.i.i, label %B140.thread.i.i

B140.thread.i.i:                                  ; preds = %B58.i.i
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !17
  br label %B214.i.i

B140.i.i:                                         ; preds = %B58.i.i
  %.41.i1.i.i = getelementptr i8, ptr %arg.octets.4, i64 %.58.i.i
  %.42.i2.i.i = load i8, ptr %.41.i1.i.i, align 1, !noalias !23
  %.46.i3.i.i = zext nneg i8 %.42.i2.i.i to i64
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !17
  %.131.i.i = icmp sgt i8 %.42.i2.i.i, -1
  br i1 %.131.i.i, label %B154.i.i, label %B214.i.i

B154.i.i:                                         ; preds = %B140.i.i
  %.134.i.i = and i64 %.46.i.i.i, 127
  %.138.i.i = shl nuw nsw i64 %.46.i3.i.i, 7
  %.141.i.i = or disjoint i64 %.138.i.i, %.134.i.i
  br label %B214.i.i

B214.i.i:                                         ; preds = %B154.i.i, %B140.i.i, %B140.thread.i.i
  %"$phi214.0.2.0.i.i" = phi i64 [ %.141.i.i, %B154.i.i ], [ 0, %B140.thread.i.i ], [ 0, %B140.i.i ]
  %.159.i.i = add nsw i64 %at.6.0.i, 2
  br label %B110.endif.i

B178.i:                                           ; preds = %B110.endif.i
  %.26.not.i.i = icmp sgt i64 %.697, %at.1.2.0.i.i
  br i1 %.26.not.i.i, label %B96.endif.i.i, label %B648.endif.thread

B140.i7.i:                                        ; preds = %B96.endif.i.i
  %.91.i.i = add nsw i64 %at.1.2.0.i.i, 1
  br label %B416.i

B154.i4.i:                                        ; preds = %B96.endif.i.i
  %.109.i.i = sub nsw i64 %.697, %at.1.2.0.i.i
  %.110.i.i = icmp sgt i64 %.109.i.i, 5
  br i1 %.110.i.i, label %B172.endif.endif.i.i, label %B72.endif.i.i.i.preheader

B72.endif.i.i.i.preheader:                        ; preds = %B172.endif.endif.i.i, %B154.i4.i
  %0 = add i64 %at.1.2.0.i.i, 1
  br label %B72.endif.i.i.i

B278.i.i:                                         ; preds = %B172.endif.endif.i.i
  %.191.i.i = and i64 %2, 127
  %.193.i.i = lshr i64 %2, 1
  %.194.i.i = and i64 %.193.i.i, 16256
  %.197.i.i = lshr i64 %2, 2
  %.198.i.i = and i64 %.197.i.i, 2080768
  %.201.i.i = lshr i64 %2, 3
  %.204.i.i = and i64 %.201.i.i, 266338304
  %.195.i.i = or disjoint i64 %.194.i.i, %.191.i.i
  %.199.i.i = or disjoint i64 %.195.i.i, %.198.i.i
  %.205.i.i = or disjoint i64 %.199.i.i, %.204.i.i
  %.207.i.i = and i64 %.46.i.i3.i, 127
  %.210.i.i = shl nuw nsw i64 %.205.i.i, 7
  %.211.i.i = or disjoint i64 %.210.i.i, %.207.i.i
  %.213.i.i = shl nuw nsw i64 %.46.i3.i6.i, 35
  %.216.i.i = or disjoint i64 %.211.i.i, %.213.i.i
  %.218.i.i = add nsw i64 %at.1.2.0.i.i, 6
  br label %B416.i

B156.i.i.i:                                       ; preds = %B72.endif.i.i.i
  %.145.i.i.i = add nuw nsw i64 %shift.2.1.i.i.i, 7
  %.153.i.i.i = icmp slt i64 %lsr.iv376, %.697
  %.172.i.i.i = icmp samesign ult i64 %shift.2.1.i.i.i, 63
  %or.cond.i.i.i = select i1 %.153.i.i.i, i1 %.172.i.i.i, i1 false
  %lsr.iv.next377 = add i64 %lsr.iv376, 1
  br i1 %or.cond.i.i.i, label %B72.endif.i.i.i, label %B648.endif.thread

B72.endif.i.i.i:                                  ; preds = %B72.endif.i.i.i.preheader, %B156.i.i.i
  %lsr.iv376 = phi i64 [ %0, %B72.endif.i.i.i.preheader ], [ %lsr.iv.next377, %B156.i.i.i ]
  %value.2.1.i.i.i = phi i64 [ %.108.i.i.i, %B156.i.i.i ], [ 0, %B72.endif.i.i.i.preheader ]
  %shift.2.1.i.i.i = phi i64 [ %.145.i.i.i, %B156.i.i.i ], [ 0, %B72.endif.i.i.i.preheader ]
  %scevgep378 = getelementptr i8, ptr %arg.octets.4, i64 %lsr.iv376
  %scevgep379 = getelementptr i8, ptr %scevgep378, i64 -1
  %.42.i.i4.i.i = load i8, ptr %scevgep379, align 1, !noalias !26
  %promoted = zext i8 %.42.i.i4.i.i to i64
  %1 = and i64 %promoted, 127
  %.106.i.i.i = shl i64 %1, %shift.2.1.i.i.i
  %.108.i.i.i = or i64 %.106.i.i.i, %value.2.1.i.i.i
  %.114.i.i.i = icmp sgt i8 %.42.i.i4.i.i, -1
  br i1 %.114.i.i.i, label %B416.i, label %B156.i.i.i

B96.endif.i.i:                                    ; preds = %B178.i
  %.41.i.i1.i = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i
  %.42.i.i2.i = load i8, ptr %.41.i.i1.i, align 1, !noalias !33
  %.46.i.i3.i = zext i8 %.42.i.i2.i to i64
  %.81.i.i = icmp sgt i8 %.42.i.i2.i, -1
  br i1 %.81.i.i, label %B140.i7.i, label %B154.i4.i

B172.endif.endif.i.i:                             ; preds = %B154.i4.i
  %sunkaddr = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i
  %sunkaddr391 = getelementptr i8, ptr %sunkaddr, i64 1
  %.42.i.i.i.i = load i32, ptr %sunkaddr391, align 1, !noalias !36
  %2 = zext i32 %.42.i.i.i.i to i64
  %sunkaddr392 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i
  %sunkaddr393 = getelementptr i8, ptr %sunkaddr392, i64 5
  %.42.i2.i5.i = load i8, ptr %sunkaddr393, align 1, !noalias !39
  %.46.i3.i6.i = zext nneg i8 %.42.i2.i5.i to i64
  %.177.i.i = and i64 %2, 2155905152
  %.178.i.i = icmp eq i64 %.177.i.i, %const
  %.181.i.i = icmp sgt i8 %.42.i2.i5.i, -1
  %or.cond.i.i = select i1 %.178.i.i, i1 %.181.i.i, i1 false
  br i1 %or.cond.i.i, label %B278.i.i, label %B72.endif.i.i.i.preheader

B268.i:                                           ; preds = %B110.endif.i
  %.26.not.i8.i = icmp sgt i64 %.697, %at.1.2.0.i.i
  br i1 %.26.not.i8.i, label %B96.endif.i12.i, label %B648.endif.thread

B140.i67.i:                                       ; preds = %B96.endif.i12.i
  %.91.i68.i = add nsw i64 %at.1.2.0.i.i, 1
  br label %B416.i

B154.i17.i:                                       ; preds = %B96.endif.i12.i
  %.109.i18.i = sub nsw i64 %.697, %at.1.2.0.i.i
  %.110.i19.i = icmp sgt i64 %.109.i18.i, 5
  br i1 %.110.i19.i, label %B172.endif.endif.i38.i, label %B72.endif.i.i21.i.preheader

B72.endif.i.i21.i.preheader:                      ; preds = %B172.endif.endif.i38.i, %B154.i17.i
  %3 = add i64 %at.1.2.0.i.i, 1
  br label %B72.endif.i.i21.i

B278.i50.i:                                       ; preds = %B172.endif.endif.i38.i
  %.191.i51.i = and i64 %5, 127
  %.193.i52.i = lshr i64 %5, 1
  %.194.i53.i = and i64 %.193.i52.i, 16256
  %.197.i54.i = lshr i64 %5, 2
  %.198.i55.i = and i64 %.197.i54.i, 2080768
  %.201.i56.i = lshr i64 %5, 3
  %.204.i57.i = and i64 %.201.i56.i, 266338304
  %.195.i58.i = or disjoint i64 %.194.i53.i, %.191.i51.i
  %.199.i59.i = or disjoint i64 %.195.i58.i, %.198.i55.i
  %.205.i60.i = or disjoint i64 %.199.i59.i, %.204.i57.i
  %.207.i61.i = and i64 %.46.i.i15.i, 127
  %.210.i62.i = shl nuw nsw i64 %.205.i60.i, 7
  %.211.i63.i = or disjoint i64 %.210.i62.i, %.207.i61.i
  %.213.i64.i = shl nuw nsw i64 %.46.i3.i45.i, 35
  %.216.i65.i = or disjoint i64 %.211.i63.i, %.213.i64.i
  %.218.i66.i = add nsw i64 %at.1.2.0.i.i, 6
  br label %B416.i

B156.i.i32.i:                                     ; preds = %B72.endif.i.i21.i
  %.145.i.i33.i = add nuw nsw i64 %shift.2.1.i.i24.i, 7
  %.153.i.i34.i = icmp slt i64 %lsr.iv, %.697
  %.172.i.i35.i = icmp samesign ult i64 %shift.2.1.i.i24.i, 63
  %or.cond.i.i36.i = select i1 %.153.i.i34.i, i1 %.172.i.i35.i, i1 false
  %lsr.iv.next = add i64 %lsr.iv, 1
  br i1 %or.cond.i.i36.i, label %B72.endif.i.i21.i, label %B648.endif.thread

B72.endif.i.i21.i:                                ; preds = %B72.endif.i.i21.i.preheader, %B156.i.i32.i
  %lsr.iv = phi i64 [ %3, %B72.endif.i.i21.i.preheader ], [ %lsr.iv.next, %B156.i.i32.i ]
  %value.2.1.i.i23.i = phi i64 [ %.108.i.i30.i, %B156.i.i32.i ], [ 0, %B72.endif.i.i21.i.preheader ]
  %shift.2.1.i.i24.i = phi i64 [ %.145.i.i33.i, %B156.i.i32.i ], [ 0, %B72.endif.i.i21.i.preheader ]
  %scevgep = getelementptr i8, ptr %arg.octets.4, i64 %lsr.iv
  %scevgep374 = getelementptr i8, ptr %scevgep, i64 -1
  %.42.i.i4.i27.i = load i8, ptr %scevgep374, align 1, !noalias !42
  %promoted394 = zext i8 %.42.i.i4.i27.i to i64
  %4 = and i64 %promoted394, 127
  %.106.i.i29.i = shl i64 %4, %shift.2.1.i.i24.i
  %.108.i.i30.i = or i64 %.106.i.i29.i, %value.2.1.i.i23.i
  %.114.i.i31.i = icmp sgt i8 %.42.i.i4.i27.i, -1
  br i1 %.114.i.i31.i, label %B416.i, label %B156.i.i32.i

B96.endif.i12.i:                                  ; preds = %B268.i
  %.41.i.i13.i = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i
  %.42.i.i14.i = load i8, ptr %.41.i.i13.i, align 1, !noalias !49
  %.46.i.i15.i = zext i8 %.42.i.i14.i to i64
  %.81.i16.i = icmp sgt i8 %.42.i.i14.i, -1
  br i1 %.81.i16.i, label %B140.i67.i, label %B154.i17.i

B172.endif.endif.i38.i:                           ; preds = %B154.i17.i
  %sunkaddr395 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i
  %sunkaddr396 = getelementptr i8, ptr %sunkaddr395, i64 1
  %.42.i.i.i41.i = load i32, ptr %sunkaddr396, align 1, !noalias !52
  %5 = zext i32 %.42.i.i.i41.i to i64
  %sunkaddr397 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i
  %sunkaddr398 = getelementptr i8, ptr %sunkaddr397, i64 5
  %.42.i2.i44.i = load i8, ptr %sunkaddr398, align 1, !noalias !55
  %.46.i3.i45.i = zext nneg i8 %.42.i2.i44.i to i64
  %.177.i46.i = and i64 %5, 2155905152
  %.178.i47.i = icmp eq i64 %.177.i46.i, %const
  %.181.i48.i = icmp sgt i8 %.42.i2.i44.i, -1
  %or.cond.i49.i = select i1 %.178.i47.i, i1 %.181.i48.i, i1 false
  br i1 %or.cond.i49.i, label %B278.i50.i, label %B72.endif.i.i21.i.preheader

B416.i:                                           ; preds = %B72.endif.i.i21.i, %B72.endif.i.i.i, %B278.i50.i, %B140.i67.i, %B278.i.i, %B140.i7.i
  %.sink.i = phi i64 [ 4, %B140.i67.i ], [ 2, %B278.i.i ], [ 2, %B140.i7.i ], [ 2, %B72.endif.i.i.i ], [ 4, %B278.i50.i ], [ 4, %B72.endif.i.i21.i ]
  %index.2.1.i = phi i64 [ %.46.i.i15.i, %B140.i67.i ], [ %index.3.0.i, %B278.i.i ], [ %index.3.0.i, %B140.i7.i ], [ %index.3.0.i, %B72.endif.i.i.i ], [ %.216.i65.i, %B278.i50.i ], [ %.108.i.i30.i, %B72.endif.i.i21.i ]
  %timestamp.2.1.i = phi i64 [ %timestamp.3.0.i, %B140.i67.i ], [ %.216.i.i, %B278.i.i ], [ %.46.i.i3.i, %B140.i7.i ], [ %.108.i.i.i, %B72.endif.i.i.i ], [ %timestamp.3.0.i, %B278.i50.i ], [ %timestamp.3.0.i, %B72.endif.i.i21.i ]
  %at.7.1.i = phi i64 [ %.91.i68.i, %B140.i67.i ], [ %.218.i.i, %B278.i.i ], [ %.91.i.i, %B140.i7.i ], [ %lsr.iv376, %B72.endif.i.i.i ], [ %.218.i66.i, %B278.i50.i ], [ %lsr.iv, %B72.endif.i.i21.i ]
  %.276.i = icmp slt i64 %at.7.1.i, 0
  br i1 %.276.i, label %B648.endif.thread, label %B474.i

B474.i:                                           ; preds = %B416.i
  %.226.i = or i64 %.sink.i, %flags.3.0.i
  %.338.i = icmp slt i64 %at.7.1.i, %.697
  br i1 %.338.i, label %B110.i, label %B720

B110.endif.i:                                     ; preds = %B214.i.i, %B110.i
  %octets.sroa.0.1.i.i = phi ptr [ null, %B214.i.i ], [ %arg.octets.0, %B110.i ]
  %tag.2.0.i.i = phi i64 [ %"$phi214.0.2.0.i.i", %B214.i.i ], [ %.46.i.i.i, %B110.i ]
  %at.1.2.0.i.i = phi i64 [ %.159.i.i, %B214.i.i ], [ %.58.i.i, %B110.i ]
  tail call void @NRT_decref(ptr %octets.sroa.0.1.i.i), !noalias !17
  switch i64 %tag.2.0.i.i, label %B648.endif.thread [
    i64 8, label %B178.i
    i64 16, label %B268.i
  ]

B720:                                             ; preds = %B474.i, %B648
  %index.4.1.sink.i285 = phi i64 [ 0, %B648 ], [ %index.2.1.i, %B474.i ]
  %timestamp.4.1.sink.i284 = phi i64 [ 0, %B648 ], [ %timestamp.2.1.i, %B474.i ]
  %flags.5.1.sink.i283 = phi i64 [ 1, %B648 ], [ %.226.i, %B474.i ]
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !14
  %.pre745 = sub nsw i64 %.371, %.697
  %.824 = icmp sgt i64 %.pre745, 5
  br i1 %.824, label %B782.endif, label %B940

B940:                                             ; preds = %B268, %B868.endif, %B720
  %index.2.1757 = phi i64 [ %index.2.1758321, %B868.endif ], [ %index.4.1.sink.i285, %B720 ], [ 0, %B268 ]
  %timestamp.2.1755 = phi i64 [ %timestamp.2.1756322, %B868.endif ], [ %timestamp.4.1.sink.i284, %B720 ], [ 0, %B268 ]
  %.971.pre-phi = phi i64 [ %.pre, %B868.endif ], [ %.pre745, %B720 ], [ %.512, %B268 ]
  %at.6.2 = phi i64 [ %.947, %B868.endif ], [ %.697, %B720 ], [ %.343, %B268 ]
  %flags.4.2 = phi i64 [ %.955, %B868.endif ], [ %flags.5.1.sink.i283, %B720 ], [ 0, %B268 ]
  %crc.2.2 = phi i64 [ %.134.i27, %B868.endif ], [ -1, %B720 ], [ -1, %B268 ]
  %checked_start.2.2 = phi i64 [ %.947, %B868.endif ], [ %.371, %B720 ], [ %.371, %B268 ]
  %.972 = icmp slt i64 %.971.pre-phi, 4
  br i1 %.972, label %B1213, label %B940.B962.endif_crit_edge

B940.B962.endif_crit_edge:                        ; preds = %B940
  %.41.i.i28.phi.trans.insert = getelementptr i8, ptr %arg.octets.4, i64 %at.6.2
  %.42.i.i29.pre = load i8, ptr %.41.i.i28.phi.trans.insert, align 1, !noalias !58
  br label %B962.endif

B1026:                                            ; preds = %B962.endif
  %.1056 = add nsw i64 %.134.i45, %.1023
  tail call void @NRT_incref(ptr %arg.octets.0), !noalias !63
  tail call void @NRT_incref(ptr nonnull %.7.i.i.i), !noalias !63
  %.109.i.not = icmp eq i64 %.134.i45, 0
  br i1 %.109.i.not, label %B1390.thread.i, label %B166.i.preheader

B166.i.preheader:                                 ; preds = %B1026
  br label %B166.i

B1390.thread.i:                                   ; preds = %B1026
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !63
  br label %B1412.i

B166.i:                                           ; preds = %B166.i.preheader, %B1376.i
  %at.6.0.i46 = phi i64 [ %at.7.11164.i, %B1376.i ], [ %.1023, %B166.i.preheader ]
  %publish_time.4.0.i = phi i64 [ %publish_time.3.11165.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %deliver_at.4.0.i = phi i64 [ %deliver_at.3.11166.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %marker_type.4.0.i = phi i64 [ %marker_type.3.11167.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %txn_most.6.0.i = phi i64 [ %txn_most.5.11168.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %txn_least.6.0.i = phi i64 [ %txn_least.5.11169.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %compression.4.0.i = phi i64 [ %compression.3.11170.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %uncompressed_size.4.0.i = phi i64 [ %uncompressed_size.3.11171.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %num_messages.4.0.i = phi i64 [ %num_messages.3.11172.i, %B1376.i ], [ 1, %B166.i.preheader ]
  %flags.9.0.i = phi i64 [ %flags.10.11173.i, %B1376.i ], [ 0, %B166.i.preheader ]
  %required.4.0.i = phi i64 [ %required.5.11174.i, %B1376.i ], [ 0, %B166.i.preheader ]
  tail call void @NRT_incref(ptr %arg.octets.0), !noalias !66
  %.41.i.i.i47 = getelementptr i8, ptr %arg.octets.4, i64 %at.6.0.i46
  %.42.i.i.i48 = load i8, ptr %.41.i.i.i47, align 1, !noalias !69
  %.46.i.i.i49 = zext i8 %.42.i.i.i48 to i64
  %.58.i.i50 = add nsw i64 %at.6.0.i46, 1
  %.67.i.i51 = icmp slt i8 %.42.i.i.i48, 0
  br i1 %.67.i.i51, label %B58.i.i171, label %B166.endif.i

B58.i.i171:                                       ; preds = %B166.i
  %.75.i.i172 = icmp slt i64 %.58.i.i50, %.1056
  br i1 %.75.i.i172, label %B140.i.i177, label %B140.thread.i.i173

B140.thread.i.i173:                               ; preds = %B58.i.i171
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !66
  br label %B214.i.i174

B140.i.i177:                                      ; preds = %B58.i.i171
  %.41.i1.i.i178 = getelementptr i8, ptr %arg.octets.4, i64 %.58.i.i50
  %.42.i2.i.i179 = load i8, ptr %.41.i1.i.i178, align 1, !noalias !72
  %.46.i3.i.i180 = zext nneg i8 %.42.i2.i.i179 to i64
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !66
  %.131.i.i181 = icmp sgt i8 %.42.i2.i.i179, -1
  br i1 %.131.i.i181, label %B154.i.i182, label %B214.i.i174

B154.i.i182:                                      ; preds = %B140.i.i177
  %.134.i.i183 = and i64 %.46.i.i.i49, 127
  %.138.i.i184 = shl nuw nsw i64 %.46.i3.i.i180, 7
  %.141.i.i185 = or disjoint i64 %.138.i.i184, %.134.i.i183
  br label %B214.i.i174

B214.i.i174:                                      ; preds = %B154.i.i182, %B140.i.i177, %B140.thread.i.i173
  %"$phi214.0.2.0.i.i175" = phi i64 [ %.141.i.i185, %B154.i.i182 ], [ 0, %B140.thread.i.i173 ], [ 0, %B140.i.i177 ]
  %.159.i.i176 = add nsw i64 %at.6.0.i46, 2
  br label %B166.endif.i

B250.i:                                           ; preds = %B166.endif.i
  %.26.not.i.i113 = icmp sgt i64 %.1056, %at.1.2.0.i.i54
  br i1 %.26.not.i.i113, label %B96.endif.i.i114, label %B250.endif.i

B140.i7.i169:                                     ; preds = %B96.endif.i.i114
  %.91.i.i170 = add nsw i64 %at.1.2.0.i.i54, 1
  br label %B250.endif.i

B154.i4.i119:                                     ; preds = %B96.endif.i.i114
  %.109.i.i120 = sub nsw i64 %.1056, %at.1.2.0.i.i54
  %.110.i.i121 = icmp sgt i64 %.109.i.i120, 5
  br i1 %.110.i.i121, label %B172.endif.endif.i.i140, label %B72.endif.i.i.i123.preheader

B72.endif.i.i.i123.preheader:                     ; preds = %B172.endif.endif.i.i140, %B154.i4.i119
  %6 = add i64 %at.1.2.0.i.i54, 1
  br label %B72.endif.i.i.i123

B278.i.i152:                                      ; preds = %B172.endif.endif.i.i140
  %.191.i.i153 = and i64 %8, 127
  %.193.i.i154 = lshr i64 %8, 1
  %.194.i.i155 = and i64 %.193.i.i154, 16256
  %.197.i.i156 = lshr i64 %8, 2
  %.198.i.i157 = and i64 %.197.i.i156, 2080768
  %.201.i.i158 = lshr i64 %8, 3
  %.204.i.i159 = and i64 %.201.i.i158, 266338304
  %.195.i.i161 = or disjoint i64 %.194.i.i155, %.191.i.i153
  %.199.i.i160 = or disjoint i64 %.195.i.i161, %.198.i.i157
  %.205.i.i162 = or disjoint i64 %.199.i.i160, %.204.i.i159
  %.207.i.i163 = and i64 %.46.i.i3.i117, 127
  %.210.i.i164 = shl nuw nsw i64 %.205.i.i162, 7
  %.211.i.i165 = or disjoint i64 %.210.i.i164, %.207.i.i163
  %.213.i.i166 = shl nuw nsw i64 %.46.i3.i6.i147, 35
  %.216.i.i167 = or disjoint i64 %.211.i.i165, %.213.i.i166
  %.218.i.i168 = add nsw i64 %at.1.2.0.i.i54, 6
  br label %B250.endif.i

B156.i.i.i134:                                    ; preds = %B72.endif.i.i.i123
  %.145.i.i.i135 = add nuw nsw i64 %shift.2.1.i.i.i126, 7
  %.153.i.i.i136 = icmp slt i64 %lsr.iv386, %.1056
  %.172.i.i.i137 = icmp samesign ult i64 %shift.2.1.i.i.i126, 63
  %or.cond.i.i.i138 = select i1 %.153.i.i.i136, i1 %.172.i.i.i137, i1 false
  %lsr.iv.next387 = add i64 %lsr.iv386, 1
  br i1 %or.cond.i.i.i138, label %B72.endif.i.i.i123, label %B250.endif.i

B72.endif.i.i.i123:                               ; preds = %B72.endif.i.i.i123.preheader, %B156.i.i.i134
  %lsr.iv386 = phi i64 [ %6, %B72.endif.i.i.i123.preheader ], [ %lsr.iv.next387, %B156.i.i.i134 ]
  %value.2.1.i.i.i125 = phi i64 [ %.108.i.i.i132, %B156.i.i.i134 ], [ 0, %B72.endif.i.i.i123.preheader ]
  %shift.2.1.i.i.i126 = phi i64 [ %.145.i.i.i135, %B156.i.i.i134 ], [ 0, %B72.endif.i.i.i123.preheader ]
  %scevgep388 = getelementptr i8, ptr %arg.octets.4, i64 %lsr.iv386
  %scevgep389 = getelementptr i8, ptr %scevgep388, i64 -1
  %.42.i.i4.i.i129 = load i8, ptr %scevgep389, align 1, !noalias !75
  %promoted399 = zext i8 %.42.i.i4.i.i129 to i64
  %7 = and i64 %promoted399, 127
  %.106.i.i.i131 = shl i64 %7, %shift.2.1.i.i.i126
  %.108.i.i.i132 = or i64 %.106.i.i.i131, %value.2.1.i.i.i125
  %.114.i.i.i133 = icmp sgt i8 %.42.i.i4.i.i129, -1
  br i1 %.114.i.i.i133, label %B250.endif.i, label %B156.i.i.i134

B96.endif.i.i114:                                 ; preds = %B250.i
  %.41.i.i1.i115 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i54
  %.42.i.i2.i116 = load i8, ptr %.41.i.i1.i115, align 1, !noalias !82
  %.46.i.i3.i117 = zext i8 %.42.i.i2.i116 to i64
  %.81.i.i118 = icmp sgt i8 %.42.i.i2.i116, -1
  br i1 %.81.i.i118, label %B140.i7.i169, label %B154.i4.i119

B172.endif.endif.i.i140:                          ; preds = %B154.i4.i119
  %sunkaddr400 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i54
  %sunkaddr401 = getelementptr i8, ptr %sunkaddr400, i64 1
  %.42.i.i.i.i143 = load i32, ptr %sunkaddr401, align 1, !noalias !85
  %8 = zext i32 %.42.i.i.i.i143 to i64
  %sunkaddr402 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i54
  %sunkaddr403 = getelementptr i8, ptr %sunkaddr402, i64 5
  %.42.i2.i5.i146 = load i8, ptr %sunkaddr403, align 1, !noalias !88
  %.46.i3.i6.i147 = zext nneg i8 %.42.i2.i5.i146 to i64
  %.177.i.i148 = and i64 %8, 2155905152
  %.178.i.i149 = icmp eq i64 %.177.i.i148, %const
  %.181.i.i150 = icmp sgt i8 %.42.i2.i5.i146, -1
  %or.cond.i.i151 = select i1 %.178.i.i149, i1 %.181.i.i150, i1 false
  br i1 %or.cond.i.i151, label %B278.i.i152, label %B72.endif.i.i.i123.preheader

B302.i:                                           ; preds = %B250.endif.i
  %.304.i = or i64 %required.4.0.i, 2
  br label %B1324.i

B328.i:                                           ; preds = %B250.endif.i
  %.364.i = or i64 %required.4.0.i, 4
  br label %B1324.i

B358.i:                                           ; preds = %B250.endif.i
  %.381.i = icmp sgt i64 %.108.i.lcssa.sink.i.i, -1
  br i1 %.381.i, label %B374.i, label %B432.i

B374.i:                                           ; preds = %B358.i
  %.388.i = icmp samesign ult i64 %.108.i.lcssa.sink.i.i, 5
  br i1 %.388.i, label %B1324.i, label %B420.i

B420.i:                                           ; preds = %B374.i
  %.458.i = icmp samesign ugt i64 %.108.i.lcssa.sink.i.i, 127
  br i1 %.458.i, label %B432.i, label %B1324.i

B432.i:                                           ; preds = %B420.i, %B358.i
  tail call void @NRT_decref(ptr nonnull %.7.i.i.i), !noalias !63
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !63
  br label %B1213

B488.i:                                           ; preds = %B250.endif.i
  %.618.i = and i64 %.108.i.lcssa.sink.i.i, 4294967295
  br label %B1324.i

B580.i:                                           ; preds = %B250.endif.i
  %.770.i = or i64 %flags.9.0.i, 16
  br label %B1324.i

B686.i:                                           ; preds = %B250.endif.i
  %.922.i = or i64 %flags.9.0.i, 536870912
  br label %B1324.i

B726.i:                                           ; preds = %B250.endif.i
  %.986.i = or i64 %flags.9.0.i, 1073741824
  br label %B1324.i

B804.i:                                           ; preds = %B766.endif.i
  %.1027.i = or i64 %flags.9.0.i, 256
  br label %B1324.i

B824.i:                                           ; preds = %B766.endif.i
  %.1036.i = and i64 %flags.9.0.i, -257
  br label %B1324.i

B860.i:                                           ; preds = %B250.endif.i
  tail call void @NRT_decref(ptr nonnull %.7.i.i.i), !noalias !63
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !63
  br label %B1213

B924.i:                                           ; preds = %B166.endif.i
  %.26.not.i8.i55 = icmp sgt i64 %.1056, %at.1.2.0.i.i54
  br i1 %.26.not.i8.i55, label %B96.endif.i12.i56, label %B1006.i

B140.i67.i111:                                    ; preds = %B96.endif.i12.i56
  %.91.i68.i112 = add nsw i64 %at.1.2.0.i.i54, 1
  br label %B924.endif.i

B154.i17.i61:                                     ; preds = %B96.endif.i12.i56
  %.109.i18.i62 = sub nsw i64 %.1056, %at.1.2.0.i.i54
  %.110.i19.i63 = icmp sgt i64 %.109.i18.i62, 5
  br i1 %.110.i19.i63, label %B172.endif.endif.i38.i82, label %B72.endif.i.i21.i65.preheader

B72.endif.i.i21.i65.preheader:                    ; preds = %B172.endif.endif.i38.i82, %B154.i17.i61
  %9 = add i64 %at.1.2.0.i.i54, 1
  br label %B72.endif.i.i21.i65

B278.i50.i94:                                     ; preds = %B172.endif.endif.i38.i82
  %.191.i51.i95 = and i64 %11, 127
  %.193.i52.i96 = lshr i64 %11, 1
  %.194.i53.i97 = and i64 %.193.i52.i96, 16256
  %.197.i54.i98 = lshr i64 %11, 2
  %.198.i55.i99 = and i64 %.197.i54.i98, 2080768
  %.201.i56.i100 = lshr i64 %11, 3
  %.204.i57.i101 = and i64 %.201.i56.i100, 266338304
  %.195.i58.i103 = or disjoint i64 %.194.i53.i97, %.191.i51.i95
  %.199.i59.i102 = or disjoint i64 %.195.i58.i103, %.198.i55.i99
  %.205.i60.i104 = or disjoint i64 %.199.i59.i102, %.204.i57.i101
  %.207.i61.i105 = and i64 %.46.i.i15.i59, 127
  %.210.i62.i106 = shl nuw nsw i64 %.205.i60.i104, 7
  %.211.i63.i107 = or disjoint i64 %.210.i62.i106, %.207.i61.i105
  %.213.i64.i108 = shl nuw nsw i64 %.46.i3.i45.i89, 35
  %.216.i65.i109 = or disjoint i64 %.211.i63.i107, %.213.i64.i108
  %.218.i66.i110 = add nsw i64 %at.1.2.0.i.i54, 6
  br label %B924.endif.i

B156.i.i32.i76:                                   ; preds = %B72.endif.i.i21.i65
  %.145.i.i33.i77 = add nuw nsw i64 %shift.2.1.i.i24.i68, 7
  %.153.i.i34.i78 = icmp slt i64 %lsr.iv381, %.1056
  %.172.i.i35.i79 = icmp samesign ult i64 %shift.2.1.i.i24.i68, 63
  %or.cond.i.i36.i80 = select i1 %.153.i.i34.i78, i1 %.172.i.i35.i79, i1 false
  %lsr.iv.next382 = add i64 %lsr.iv381, 1
  br i1 %or.cond.i.i36.i80, label %B72.endif.i.i21.i65, label %B1006.i

B72.endif.i.i21.i65:                              ; preds = %B72.endif.i.i21.i65.preheader, %B156.i.i32.i76
  %lsr.iv381 = phi i64 [ %9, %B72.endif.i.i21.i65.preheader ], [ %lsr.iv.next382, %B156.i.i32.i76 ]
  %value.2.1.i.i23.i67 = phi i64 [ %.108.i.i30.i74, %B156.i.i32.i76 ], [ 0, %B72.endif.i.i21.i65.preheader ]
  %shift.2.1.i.i24.i68 = phi i64 [ %.145.i.i33.i77, %B156.i.i32.i76 ], [ 0, %B72.endif.i.i21.i65.preheader ]
  %scevgep383 = getelementptr i8, ptr %arg.octets.4, i64 %lsr.iv381
  %scevgep384 = getelementptr i8, ptr %scevgep383, i64 -1
  %.42.i.i4.i27.i71 = load i8, ptr %scevgep384, align 1, !noalias !91
  %promoted404 = zext i8 %.42.i.i4.i27.i71 to i64
  %10 = and i64 %promoted404, 127
  %.106.i.i29.i73 = shl i64 %10, %shift.2.1.i.i24.i68
  %.108.i.i30.i74 = or i64 %.106.i.i29.i73, %value.2.1.i.i23.i67
  %.114.i.i31.i75 = icmp sgt i8 %.42.i.i4.i27.i71, -1
  br i1 %.114.i.i31.i75, label %B924.endif.i, label %B156.i.i32.i76

B96.endif.i12.i56:                                ; preds = %B924.i
  %.41.i.i13.i57 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i54
  %.42.i.i14.i58 = load i8, ptr %.41.i.i13.i57, align 1, !noalias !98
  %.46.i.i15.i59 = zext i8 %.42.i.i14.i58 to i64
  %.81.i16.i60 = icmp sgt i8 %.42.i.i14.i58, -1
  br i1 %.81.i16.i60, label %B140.i67.i111, label %B154.i17.i61

B172.endif.endif.i38.i82:                         ; preds = %B154.i17.i61
  %sunkaddr405 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i54
  %sunkaddr406 = getelementptr i8, ptr %sunkaddr405, i64 1
  %.42.i.i.i41.i85 = load i32, ptr %sunkaddr406, align 1, !noalias !101
  %11 = zext i32 %.42.i.i.i41.i85 to i64
  %sunkaddr407 = getelementptr i8, ptr %arg.octets.4, i64 %at.1.2.0.i.i54
  %sunkaddr408 = getelementptr i8, ptr %sunkaddr407, i64 5
  %.42.i2.i44.i88 = load i8, ptr %sunkaddr408, align 1, !noalias !104
  %.46.i3.i45.i89 = zext nneg i8 %.42.i2.i44.i88 to i64
  %.177.i46.i90 = and i64 %11, 2155905152
  %.178.i47.i91 = icmp eq i64 %.177.i46.i90, %const
  %.181.i48.i92 = icmp sgt i8 %.42.i2.i44.i88, -1
  %or.cond.i49.i93 = select i1 %.178.i47.i91, i1 %.181.i48.i92, i1 false
  br i1 %or.cond.i49.i93, label %B278.i50.i94, label %B72.endif.i.i21.i65.preheader

B1006.i:                                          ; preds = %B924.endif.i, %B924.i, %B156.i.i32.i76
  tail call void @NRT_decref(ptr nonnull %.7.i.i.i), !noalias !63
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !63
  br label %B1213

B1046.i:                                          ; preds = %B924.endif.i
  switch i64 %.182.i, label %B1324.thread1138.i [
    i64 1, label %B1062.i
    i64 4, label %B1086.i
    i64 13, label %B1140.i
    i64 31, label %B1336.i
  ]

B1062.i:                                          ; preds = %B1046.i
  %.1328.i = or i64 %required.4.0.i, 1
  br label %B1324.thread1138.i

B1086.i:                                          ; preds = %B1046.i
  %.1354.i = add nuw nsw i64 %.sink.i.sink.i10.i, %.108.i.lcssa.sink.i9.i
  tail call void @NRT_incref(ptr %arg.octets.0), !noalias !107
  %.27.i.i = icmp sgt i64 %.108.i.lcssa.sink.i9.i, 3
  br i1 %.27.i.i, label %B22.endif.i.i, label %B1336.sink.split.i

B22.endif.i.i:                                    ; preds = %B1086.i
  %12 = getelementptr i8, ptr %arg.octets.4, i64 %.sink.i.sink.i10.i
  %.41.i.i74.i = getelementptr i8, ptr %12, i64 1
  %.42.i.i75.i = load i8, ptr %.41.i.i74.i, align 1, !noalias !110
  %.46.i.i76.i = zext i8 %.42.i.i75.i to i64
  %.30.i.i = add nuw nsw i64 %.sink.i.sink.i10.i, 2
  %.62.i.i = add nuw nsw i64 %.30.i.i, %.46.i.i76.i
  %.67.i77.i = add nuw nsw i64 %.62.i.i, 2
  %.69.not.i.i = icmp sgt i64 %.67.i77.i, %.1354.i
  br i1 %.69.not.i.i, label %B1336.sink.split.i, label %B90.endif.i.i

B90.endif.i.i:                                    ; preds = %B22.endif.i.i
  %sunkaddr409 = getelementptr i8, ptr %arg.octets.4, i64 %.sink.i.sink.i10.i
  %.42.i2.i79.i = load i8, ptr %sunkaddr409, align 1, !noalias !113
  %.99.i.i = icmp eq i8 %.42.i2.i79.i, 10
  br i1 %.99.i.i, label %B140.endif.i.i, label %B1336.sink.split.i

B140.endif.i.i:                                   ; preds = %B90.endif.i.i
  %.41.i4.i.i = getelementptr i8, ptr %arg.octets.4, i64 %.62.i.i
  %.42.i5.i.i = load i8, ptr %.41.i4.i.i, align 1, !noalias !116
  %.129.i.i = icmp eq i8 %.42.i5.i.i, 18
  br i1 %.129.i.i, label %B190.endif.i.i, label %B1336.sink.split.i

B190.endif.i.i:                                   ; preds = %B140.endif.i.i
  %sunkaddr410 = getelementptr i8, ptr %arg.octets.4, i64 %.62.i.i
  %sunkaddr411 = getelementptr i8, ptr %sunkaddr410, i64 1
  %.42.i8.i.i = load i8, ptr %sunkaddr411, align 1, !noalias !119
  %.46.i9.i.i = zext i8 %.42.i8.i.i to i64
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !107
  %.172.i.i = add nuw nsw i64 %.sink.i.sink.i10.i, 130
  %.174.i.i = icmp samesign ult i64 %.62.i.i, %.172.i.i
  %.177.i80.i = icmp sgt i8 %.42.i8.i.i, -1
  %or.cond.i81.i = select i1 %.174.i.i, i1 %.177.i80.i, i1 false
  %.184.i.i = add nuw nsw i64 %.67.i77.i, %.46.i9.i.i
  %.188.i.i = icmp eq i64 %.184.i.i, %.1354.i
  %or.cond59.i.i = select i1 %or.cond.i81.i, i1 %.188.i.i, i1 false
  br i1 %or.cond59.i.i, label %B1324.thread1138.i, label %B1336.sink.split.i

B1140.i:                                          ; preds = %B1046.i
  %.1409.i = add nuw nsw i64 %.sink.i.sink.i10.i, %.108.i.lcssa.sink.i9.i
  tail call void @NRT_incref(ptr %arg.octets.0), !noalias !122
  %.27.i82.i = icmp sgt i64 %.108.i.lcssa.sink.i9.i, 3
  br i1 %.27.i82.i, label %B22.endif.i86.i, label %B1336.sink.split.i

B22.endif.i86.i:                                  ; preds = %B1140.i
  %13 = getelementptr i8, ptr %arg.octets.4, i64 %.sink.i.sink.i10.i
  %.41.i.i87.i = getelementptr i8, ptr %13, i64 1
  %.42.i.i88.i = load i8, ptr %.41.i.i87.i, align 1, !noalias !125
  %.46.i.i89.i = zext i8 %.42.i.i88.i to i64
  %.30.i90.i = add nuw nsw i64 %.sink.i.sink.i10.i, 2
  %.62.i91.i = add nuw nsw i64 %.30.i90.i, %.46.i.i89.i
  %.67.i92.i = add nuw nsw i64 %.62.i91.i, 2
  %.69.not.i93.i = icmp sgt i64 %.67.i92.i, %.1409.i
  br i1 %.69.not.i93.i, label %B1336.sink.split.i, label %B90.endif.i94.i

B90.endif.i94.i:                                  ; preds = %B22.endif.i86.i
  %sunkaddr412 = getelementptr i8, ptr %arg.octets.4, i64 %.sink.i.sink.i10.i
  %.42.i2.i96.i = load i8, ptr %sunkaddr412, align 1, !noalias !128
  %.99.i97.i = icmp eq i8 %.42.i2.i96.i, 10
  br i1 %.99.i97.i, label %B140.endif.i98.i, label %B1336.sink.split.i

B140.endif.i98.i:                                 ; preds = %B90.endif.i94.i
  %.41.i4.i99.i = getelementptr i8, ptr %arg.octets.4, i64 %.62.i91.i
  %.42.i5.i100.i = load i8, ptr %.41.i4.i99.i, align 1, !noalias !131
  %.129.i101.i = icmp eq i8 %.42.i5.i100.i, 18
  br i1 %.129.i101.i, label %B190.endif.i102.i, label %B1336.sink.split.i

B190.endif.i102.i:                                ; preds = %B140.endif.i98.i
  %sunkaddr413 = getelementptr i8, ptr %arg.octets.4, i64 %.62.i91.i
  %sunkaddr414 = getelementptr i8, ptr %sunkaddr413, i64 1
  %.42.i8.i105.i = load i8, ptr %sunkaddr414, align 1, !noalias !134
  %.46.i9.i106.i = zext i8 %.42.i8.i105.i to i64
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !122
  %.172.i107.i = add nuw nsw i64 %.sink.i.sink.i10.i, 130
  %.174.i108.i = icmp samesign ult i64 %.62.i91.i, %.172.i107.i
  %.177.i109.i = icmp sgt i8 %.42.i8.i105.i, -1
  %or.cond.i110.i = select i1 %.174.i108.i, i1 %.177.i109.i, i1 false
  %.184.i111.i = add nuw nsw i64 %.67.i92.i, %.46.i9.i106.i
  %.188.i112.i = icmp eq i64 %.184.i111.i, %.1409.i
  %or.cond59.i113.i = select i1 %or.cond.i110.i, i1 %.188.i112.i, i1 false
  br i1 %or.cond59.i113.i, label %B1140.endif.endif.i, label %B1336.sink.split.i

B1324.thread1138.i:                               ; preds = %B1140.endif.endif.i, %B190.endif.i.i, %B1062.i, %B1046.i
  %required.6.21108.i = phi i64 [ %required.4.0.i, %B1140.endif.endif.i ], [ %.1328.i, %B1062.i ], [ %required.4.0.i, %B1046.i ], [ %required.4.0.i, %B190.endif.i.i ]
  %flags.11.21106.i = phi i64 [ %.1450.i, %B1140.endif.endif.i ], [ %flags.9.0.i, %B1062.i ], [ %flags.9.0.i, %B1046.i ], [ %flags.9.0.i, %B190.endif.i.i ]
  %.1495.i = add nuw nsw i64 %.sink.i.sink.i10.i, %.108.i.lcssa.sink.i9.i
  br label %B1376.i

B1324.i:                                          ; preds = %B620.endif.i, %B514.endif.i, %B250.endif.i, %B824.i, %B804.i, %B726.i, %B686.i, %B580.i, %B488.i, %B420.i, %B374.i, %B328.i, %B302.i
  %publish_time.3.1.i = phi i64 [ %publish_time.4.0.i, %B302.i ], [ %.108.i.lcssa.sink.i.i, %B328.i ], [ %publish_time.4.0.i, %B824.i ], [ %publish_time.4.0.i, %B374.i ], [ %publish_time.4.0.i, %B488.i ], [ %publish_time.4.0.i, %B514.endif.i ], [ %publish_time.4.0.i, %B580.i ], [ %publish_time.4.0.i, %B620.endif.i ], [ %publish_time.4.0.i, %B686.i ], [ %publish_time.4.0.i, %B726.i ], [ %publish_time.4.0.i, %B420.i ], [ %publish_time.4.0.i, %B804.i ], [ %publish_time.4.0.i, %B250.endif.i ]
  %deliver_at.3.1.i = phi i64 [ %deliver_at.4.0.i, %B302.i ], [ %deliver_at.4.0.i, %B328.i ], [ %deliver_at.4.0.i, %B824.i ], [ %deliver_at.4.0.i, %B374.i ], [ %deliver_at.4.0.i, %B488.i ], [ %deliver_at.4.0.i, %B514.endif.i ], [ %.108.i.lcssa.sink.i.i, %B580.i ], [ %deliver_at.4.0.i, %B620.endif.i ], [ %deliver_at.4.0.i, %B686.i ], [ %deliver_at.4.0.i, %B726.i ], [ %deliver_at.4.0.i, %B420.i ], [ %deliver_at.4.0.i, %B804.i ], [ %deliver_at.4.0.i, %B250.endif.i ]
  %marker_type.3.1.i = phi i64 [ %marker_type.4.0.i, %B302.i ], [ %marker_type.4.0.i, %B328.i ], [ %marker_type.4.0.i, %B824.i ], [ %marker_type.4.0.i, %B374.i ], [ %marker_type.4.0.i, %B488.i ], [ %marker_type.4.0.i, %B514.endif.i ], [ %marker_type.4.0.i, %B580.i ], [ %.7.i71.i, %B620.endif.i ], [ %marker_type.4.0.i, %B686.i ], [ %marker_type.4.0.i, %B726.i ], [ %marker_type.4.0.i, %B420.i ], [ %marker_type.4.0.i, %B804.i ], [ %marker_type.4.0.i, %B250.endif.i ]
  %txn_most.5.1.i = phi i64 [ %txn_most.6.0.i, %B302.i ], [ %txn_most.6.0.i, %B328.i ], [ %txn_most.6.0.i, %B824.i ], [ %txn_most.6.0.i, %B374.i ], [ %txn_most.6.0.i, %B488.i ], [ %txn_most.6.0.i, %B514.endif.i ], [ %txn_most.6.0.i, %B580.i ], [ %txn_most.6.0.i, %B620.endif.i ], [ %txn_most.6.0.i, %B686.i ], [ %.108.i.lcssa.sink.i.i, %B726.i ], [ %txn_most.6.0.i, %B420.i ], [ %txn_most.6.0.i, %B804.i ], [ %txn_most.6.0.i, %B250.endif.i ]
  %txn_least.5.1.i = phi i64 [ %txn_least.6.0.i, %B302.i ], [ %txn_least.6.0.i, %B328.i ], [ %txn_least.6.0.i, %B824.i ], [ %txn_least.6.0.i, %B374.i ], [ %txn_least.6.0.i, %B488.i ], [ %txn_least.6.0.i, %B514.endif.i ], [ %txn_least.6.0.i, %B580.i ], [ %txn_least.6.0.i, %B620.endif.i ], [ %.108.i.lcssa.sink.i.i, %B686.i ], [ %txn_least.6.0.i, %B726.i ], [ %txn_least.6.0.i, %B420.i ], [ %txn_least.6.0.i, %B804.i ], [ %txn_least.6.0.i, %B250.endif.i ]
  %compression.3.1.i = phi i64 [ %compression.4.0.i, %B302.i ], [ %compression.4.0.i, %B328.i ], [ %compression.4.0.i, %B824.i ], [ %.108.i.lcssa.sink.i.i, %B374.i ], [ %compression.4.0.i, %B488.i ], [ %compression.4.0.i, %B514.endif.i ], [ %compression.4.0.i, %B580.i ], [ %compression.4.0.i, %B620.endif.i ], [ %compression.4.0.i, %B686.i ], [ %compression.4.0.i, %B726.i ], [ %compression.4.0.i, %B420.i ], [ %compression.4.0.i, %B804.i ], [ %compression.4.0.i, %B250.endif.i ]
  %uncompressed_size.3.1.i = phi i64 [ %uncompressed_size.4.0.i, %B302.i ], [ %uncompressed_size.4.0.i, %B328.i ], [ %uncompressed_size.4.0.i, %B824.i ], [ %uncompressed_size.4.0.i, %B374.i ], [ %.618.i, %B488.i ], [ %uncompressed_size.4.0.i, %B514.endif.i ], [ %uncompressed_size.4.0.i, %B580.i ], [ %uncompressed_size.4.0.i, %B620.endif.i ], [ %uncompressed_size.4.0.i, %B686.i ], [ %uncompressed_size.4.0.i, %B726.i ], [ %uncompressed_size.4.0.i, %B420.i ], [ %uncompressed_size.4.0.i, %B804.i ], [ %uncompressed_size.4.0.i, %B250.endif.i ]
  %num_messages.3.1.i = phi i64 [ %num_messages.4.0.i, %B302.i ], [ %num_messages.4.0.i, %B328.i ], [ %num_messages.4.0.i, %B824.i ], [ %num_messages.4.0.i, %B374.i ], [ %num_messages.4.0.i, %B488.i ], [ %.7.i.i, %B514.endif.i ], [ %num_messages.4.0.i, %B580.i ], [ %num_messages.4.0.i, %B620.endif.i ], [ %num_messages.4.0.i, %B686.i ], [ %num_messages.4.0.i, %B726.i ], [ %num_messages.4.0.i, %B420.i ], [ %num_messages.4.0.i, %B804.i ], [ %num_messages.4.0.i, %B250.endif.i ]
  %flags.10.1.i = phi i64 [ %flags.9.0.i, %B302.i ], [ %flags.9.0.i, %B328.i ], [ %.1036.i, %B824.i ], [ %flags.9.0.i, %B374.i ], [ %flags.9.0.i, %B488.i ], [ %.706.i, %B514.endif.i ], [ %.770.i, %B580.i ], [ %.858.i, %B620.endif.i ], [ %.922.i, %B686.i ], [ %.986.i, %B726.i ], [ %flags.9.0.i, %B420.i ], [ %.1027.i, %B804.i ], [ %flags.9.0.i, %B250.endif.i ]
  %required.5.1.i = phi i64 [ %.304.i, %B302.i ], [ %.364.i, %B328.i ], [ %required.4.0.i, %B824.i ], [ %required.4.0.i, %B374.i ], [ %required.4.0.i, %B488.i ], [ %required.4.0.i, %B514.endif.i ], [ %required.4.0.i, %B580.i ], [ %required.4.0.i, %B620.endif.i ], [ %required.4.0.i, %B686.i ], [ %required.4.0.i, %B726.i ], [ %required.4.0.i, %B420.i ], [ %required.4.0.i, %B804.i ], [ %required.4.0.i, %B250.endif.i ]
  %.1625.i = icmp slt i64 %.sink.i.sink.i.i, 0
  br i1 %.1625.i, label %B1336.i, label %B1376.i

B1336.sink.split.i:                               ; preds = %B190.endif.i102.i, %B140.endif.i98.i, %B90.endif.i94.i, %B22.endif.i86.i, %B1140.i, %B190.endif.i.i, %B140.endif.i.i, %B90.endif.i.i, %B22.endif.i.i, %B1086.i
  %octets.sroa.0.0.i84.sink.i = phi ptr [ %arg.octets.0, %B90.endif.i.i ], [ %arg.octets.0, %B22.endif.i.i ], [ %arg.octets.0, %B1086.i ], [ null, %B190.endif.i.i ], [ %arg.octets.0, %B140.endif.i.i ], [ %arg.octets.0, %B22.endif.i86.i ], [ %arg.octets.0, %B1140.i ], [ null, %B190.endif.i102.i ], [ %arg.octets.0, %B140.endif.i98.i ], [ %arg.octets.0, %B90.endif.i94.i ]
  tail call void @NRT_decref(ptr %octets.sroa.0.0.i84.sink.i), !noalias !63
  br label %B1336.i

B1336.i:                                          ; preds = %B166.endif.i, %B1324.i, %B1046.i, %B1336.sink.split.i
  tail call void @NRT_decref(ptr nonnull %.7.i.i.i), !noalias !63
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !63
  br label %B1213

B1376.i:                                          ; preds = %B1324.i, %B1324.thread1138.i
  %required.5.11174.i = phi i64 [ %required.6.21108.i, %B1324.thread1138.i ], [ %required.5.1.i, %B1324.i ]
  %flags.10.11173.i = phi i64 [ %flags.11.21106.i, %B1324.thread1138.i ], [ %flags.10.1.i, %B1324.i ]
  %num_messages.3.11172.i = phi i64 [ %num_messages.4.0.i, %B1324.thread1138.i ], [ %num_messages.3.1.i, %B1324.i ]
  %uncompressed_size.3.11171.i = phi i64 [ %uncompressed_size.4.0.i, %B1324.thread1138.i ], [ %uncompressed_size.3.1.i, %B1324.i ]
  %compression.3.11170.i = phi i64 [ %compression.4.0.i, %B1324.thread1138.i ], [ %compression.3.1.i, %B1324.i ]
  %txn_least.5.11169.i = phi i64 [ %txn_least.6.0.i, %B1324.thread1138.i ], [ %txn_least.5.1.i, %B1324.i ]
  %txn_most.5.11168.i = phi i64 [ %txn_most.6.0.i, %B1324.thread1138.i ], [ %txn_most.5.1.i, %B1324.i ]
  %marker_type.3.11167.i = phi i64 [ %marker_type.4.0.i, %B1324.thread1138.i ], [ %marker_type.3.1.i, %B1324.i ]
  %deliver_at.3.11166.i = phi i64 [ %deliver_at.4.0.i, %B1324.thread1138.i ], [ %deliver_at.3.1.i, %B1324.i ]
  %publish_time.3.11165.i = phi i64 [ %publish_time.4.0.i, %B1324.thread1138.i ], [ %publish_time.3.1.i, %B1324.i ]
  %at.7.11164.i = phi i64 [ %.1495.i, %B1324.thread1138.i ], [ %.sink.i.sink.i.i, %B1324.i ]
  %.1752.i = icmp slt i64 %at.7.11164.i, %.1056
  br i1 %.1752.i, label %B166.i, label %B1390.i

B1390.i:                                          ; preds = %B1376.i
  %14 = icmp eq i64 %required.5.11174.i, 7
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !63
  br i1 %14, label %B1026.endif, label %B1412.i

B1412.i:                                          ; preds = %B1390.i, %B1390.thread.i
  tail call void @NRT_decref(ptr nonnull %.7.i.i.i), !noalias !63
  br label %B1213

B166.endif.i:                                     ; preds = %B214.i.i174, %B166.i
  %octets.sroa.0.1.i.i52 = phi ptr [ null, %B214.i.i174 ], [ %arg.octets.0, %B166.i ]
  %tag.2.0.i.i53 = phi i64 [ %"$phi214.0.2.0.i.i175", %B214.i.i174 ], [ %.46.i.i.i49, %B166.i ]
  %at.1.2.0.i.i54 = phi i64 [ %.159.i.i176, %B214.i.i174 ], [ %.58.i.i50, %B166.i ]
  tail call void @NRT_decref(ptr %octets.sroa.0.1.i.i52), !noalias !66
  %.178.not.i.i = icmp samesign ult i64 %tag.2.0.i.i53, 8
  %spec.select.i.i = select i1 %.178.not.i.i, i64 0, i64 %tag.2.0.i.i53
  %.178.i = and i64 %spec.select.i.i, 7
  %.182.i = lshr i64 %spec.select.i.i, 3
  switch i64 %.178.i, label %B1336.i [
    i64 0, label %B250.i
    i64 2, label %B924.i
  ]

B250.endif.i:                                     ; preds = %B156.i.i.i134, %B72.endif.i.i.i123, %B278.i.i152, %B140.i7.i169, %B250.i
  %.108.i.lcssa.sink.i.i = phi i64 [ 0, %B250.i ], [ %.216.i.i167, %B278.i.i152 ], [ %.46.i.i3.i117, %B140.i7.i169 ], [ %.108.i.i.i132, %B156.i.i.i134 ], [ %.108.i.i.i132, %B72.endif.i.i.i123 ]
  %.sink.i.sink.i.i = phi i64 [ -1, %B250.i ], [ %.218.i.i168, %B278.i.i152 ], [ %.91.i.i170, %B140.i7.i169 ], [ -1, %B156.i.i.i134 ], [ %lsr.iv386, %B72.endif.i.i.i123 ]
  switch i64 %.182.i, label %B1324.i [
    i64 2, label %B302.i
    i64 3, label %B328.i
    i64 8, label %B358.i
    i64 9, label %B488.i
    i64 11, label %B514.endif.i
    i64 19, label %B580.i
    i64 20, label %B620.endif.i
    i64 22, label %B686.i
    i64 23, label %B726.i
    i64 27, label %B766.endif.i
    i64 0, label %B860.i
  ]

B514.endif.i:                                     ; preds = %B250.endif.i
  %sext.i.i = shl i64 %.108.i.lcssa.sink.i.i, 32
  %.7.i.i = ashr exact i64 %sext.i.i, 32
  %.706.i = or i64 %flags.9.0.i, 128
  br label %B1324.i

B620.endif.i:                                     ; preds = %B250.endif.i
  %sext.i70.i = shl i64 %.108.i.lcssa.sink.i.i, 32
  %.7.i71.i = ashr exact i64 %sext.i70.i, 32
  %.858.i = or i64 %flags.9.0.i, 32
  br label %B1324.i

B766.endif.i:                                     ; preds = %B250.endif.i
  %15 = trunc i64 %.108.i.lcssa.sink.i.i to i32
  %.1024.i = icmp sgt i32 %15, 1
  br i1 %.1024.i, label %B804.i, label %B824.i

B924.endif.i:                                     ; preds = %B72.endif.i.i21.i65, %B278.i50.i94, %B140.i67.i111
  %.108.i.lcssa.sink.i9.i = phi i64 [ %.46.i.i15.i59, %B140.i67.i111 ], [ %.216.i65.i109, %B278.i50.i94 ], [ %.108.i.i30.i74, %B72.endif.i.i21.i65 ]
  %.sink.i.sink.i10.i = phi i64 [ %.91.i68.i112, %B140.i67.i111 ], [ %.218.i66.i110, %B278.i50.i94 ], [ %lsr.iv381, %B72.endif.i.i21.i65 ]
  %.1252.i = icmp slt i64 %.sink.i.sink.i10.i, 0
  %.1255.i = icmp slt i64 %.108.i.lcssa.sink.i9.i, 0
  %or.cond.i = select i1 %.1252.i, i1 true, i1 %.1255.i
  %.1259.i = sub nsw i64 %.1056, %.sink.i.sink.i10.i
  %.1261.i = icmp sgt i64 %.108.i.lcssa.sink.i9.i, %.1259.i
  %or.cond1184.i = select i1 %or.cond.i, i1 true, i1 %.1261.i
  br i1 %or.cond1184.i, label %B1006.i, label %B1046.i

B1140.endif.endif.i:                              ; preds = %B190.endif.i102.i
  %.1450.i = or i64 %flags.9.0.i, 512
  br label %B1324.thread1138.i

B1086:                                            ; preds = %B1026.endif
  %.2368.i = and i64 %flags.13.0.i, 2684354559
  %.1167 = getelementptr i64, ptr %.6.i.i, i64 %.281717728
  store i64 %timestamp.2.1755775, ptr %.1167, align 8
  %.1222 = getelementptr i64, ptr %19, i64 %.281717728
  store i64 %index.2.1757774, ptr %.1222, align 8
  %sunkaddr415 = mul i64 %.281717728, 8
  %sunkaddr416 = getelementptr inbounds i8, ptr %17, i64 %sunkaddr415
  store i64 %checked_start.2.2779, ptr %sunkaddr416, align 8
  %sunkaddr417 = mul i64 %.281717728, 8
  %sunkaddr418 = getelementptr inbounds i8, ptr %18, i64 %sunkaddr417
  store i64 %crc.2.2778, ptr %sunkaddr418, align 8
  %.1338 = or i64 %.2368.i, %flags.4.2777
  %.1369 = getelementptr i32, ptr %.6.i.i.i214, i64 %.281717728
  %.1370 = trunc nuw i64 %.1338 to i32
  store i32 %.1370, ptr %.1369, align 4
  %.1398 = getelementptr i8, ptr %.6.i.i.i, i64 %.281717728
  store i8 1, ptr %.1398, align 1
  br label %B1213

common.ret:                                       ; preds = %B0.endif.endif.if.if, %B0.endif.if.if, %B0.if.if, %B1212
  %common.ret.op = phi i32 [ 0, %B1212 ], [ 1, %B0.if.if ], [ 1, %B0.endif.if.if ], [ 1, %B0.endif.endif.if.if ]
  ret i32 %common.ret.op

B1212:                                            ; preds = %B1213, %B0.endif.endif.endif.endif
  store ptr %.7.i.i.i.i, ptr %retptr, align 8
  %retptr.repack652 = getelementptr inbounds nuw i8, ptr %retptr, i64 8
  store ptr null, ptr %retptr.repack652, align 8
  %retptr.repack654 = getelementptr inbounds nuw i8, ptr %retptr, i64 16
  store i64 %arg.start.5.0, ptr %retptr.repack654, align 8
  %retptr.repack656 = getelementptr inbounds nuw i8, ptr %retptr, i64 24
  store i64 1, ptr %retptr.repack656, align 8
  %retptr.repack658 = getelementptr inbounds nuw i8, ptr %retptr, i64 32
  store ptr %.6.i.i.i, ptr %retptr.repack658, align 8
  %retptr.repack660 = getelementptr inbounds nuw i8, ptr %retptr, i64 40
  store i64 %arg.start.5.0, ptr %retptr.repack660, align 8
  %retptr.repack662 = getelementptr inbounds nuw i8, ptr %retptr, i64 48
  store i64 1, ptr %retptr.repack662, align 8
  %retptr.repack648 = getelementptr inbounds nuw i8, ptr %retptr, i64 56
  store ptr %.7.i.i.i.i210, ptr %retptr.repack648, align 8
  %retptr.repack648.repack664 = getelementptr inbounds nuw i8, ptr %retptr, i64 64
  store ptr null, ptr %retptr.repack648.repack664, align 8
  %retptr.repack648.repack666 = getelementptr inbounds nuw i8, ptr %retptr, i64 72
  store i64 %arg.start.5.0, ptr %retptr.repack648.repack666, align 8
  %retptr.repack648.repack668 = getelementptr inbounds nuw i8, ptr %retptr, i64 80
  store i64 4, ptr %retptr.repack648.repack668, align 8
  %retptr.repack648.repack670 = getelementptr inbounds nuw i8, ptr %retptr, i64 88
  store ptr %.6.i.i.i214, ptr %retptr.repack648.repack670, align 8
  %retptr.repack648.repack672 = getelementptr inbounds nuw i8, ptr %retptr, i64 96
  store i64 %arg.start.5.0, ptr %retptr.repack648.repack672, align 8
  %retptr.repack648.repack674 = getelementptr inbounds nuw i8, ptr %retptr, i64 104
  store i64 4, ptr %retptr.repack648.repack674, align 8
  %retptr.repack650 = getelementptr inbounds nuw i8, ptr %retptr, i64 112
  store ptr %.7.i.i.i, ptr %retptr.repack650, align 8
  %retptr.repack650.repack676 = getelementptr inbounds nuw i8, ptr %retptr, i64 120
  store ptr null, ptr %retptr.repack650.repack676, align 8
  %retptr.repack650.repack678 = getelementptr inbounds nuw i8, ptr %retptr, i64 128
  store i64 %.51.i, ptr %retptr.repack650.repack678, align 8
  %retptr.repack650.repack680 = getelementptr inbounds nuw i8, ptr %retptr, i64 136
  store i64 8, ptr %retptr.repack650.repack680, align 8
  %retptr.repack650.repack682 = getelementptr inbounds nuw i8, ptr %retptr, i64 144
  store ptr %.6.i.i, ptr %retptr.repack650.repack682, align 8
  %retptr.repack650.repack684 = getelementptr inbounds nuw i8, ptr %retptr, i64 152
  store i64 13, ptr %retptr.repack650.repack684, align 8
  %retptr.repack650.repack684.repack688 = getelementptr inbounds nuw i8, ptr %retptr, i64 160
  store i64 %arg.start.5.0, ptr %retptr.repack650.repack684.repack688, align 8
  %retptr.repack650.repack686 = getelementptr inbounds nuw i8, ptr %retptr, i64 168
  store i64 %.54.i, ptr %retptr.repack650.repack686, align 8
  %retptr.repack650.repack686.repack690 = getelementptr inbounds nuw i8, ptr %retptr, i64 176
  store i64 8, ptr %retptr.repack650.repack686.repack690, align 8
  tail call void @NRT_decref(ptr %arg.start.0)
  tail call void @NRT_decref(ptr %arg.octets.0)
  tail call void @NRT_decref(ptr %arg.end.0)
  br label %common.ret

B1213:                                            ; preds = %B648.endif.thread, %B432.i, %B860.i, %B1006.i, %B1336.i, %B1412.i, %B1026.endif, %B962.endif, %B940, %B542.endif.endif, %B1086
  %exitcond.not = icmp eq i64 %.288, %arg.start.5.0
  br i1 %exitcond.not, label %B1212, label %B268

B0.endif.endif.i.i:                               ; preds = %B0.endif.endif.endif.i.i
  %.5.i.i.i = getelementptr i8, ptr %.7.i.i.i.i, i64 24
  %.6.i.i.i = load ptr, ptr %.5.i.i.i, align 8, !noalias !137
  tail call void @llvm.memset.p0.i64(ptr align 1 %.6.i.i.i, i8 0, i64 %arg.start.5.0, i1 false), !noalias !138
  %.31.i.i = icmp samesign ugt i64 %arg.start.5.0, 2305843009213693951
  br i1 %.31.i.i, label %B0.endif.if.if, label %B0.endif.endif.endif.i.i208, !prof !0

B0.endif.endif.endif.i.i208:                      ; preds = %B0.endif.endif.i.i
  %.30.i.i209 = shl nuw nsw i64 %arg.start.5.0, 2
  %.7.i.i.i.i210 = tail call ptr @NRT_MemInfo_alloc_aligned(i64 %.30.i.i209, i32 32), !noalias !141
  %.8.i.i.i.i211 = icmp eq ptr %.7.i.i.i.i210, null
  br i1 %.8.i.i.i.i211, label %B0.endif.if.if, label %B0.endif.endif.endif.endif.i, !prof !0

B0.if.if:                                         ; preds = %B0.endif.endif.endif.i.i, %B0
  %excinfo.1.0.ph = phi ptr [ @.const.picklebuf.331b8563bdb9dac81b38422273052c486fc1706b, %B0 ], [ @.const.picklebuf.ba289d81f05c7020f3477c15734804df65abe209, %B0.endif.endif.endif.i.i ]
  store ptr %excinfo.1.0.ph, ptr %excinfo, align 8
  br label %common.ret

B0.endif.endif.endif.endif.i:                     ; preds = %B0.endif.endif.endif.i.i208
  %.5.i.i.i213 = getelementptr i8, ptr %.7.i.i.i.i210, i64 24
  %.6.i.i.i214 = load ptr, ptr %.5.i.i.i213, align 8, !noalias !154
  tail call void @llvm.memset.p0.i64(ptr align 1 %.6.i.i.i214, i8 0, i64 %.30.i.i209, i1 false), !noalias !155
  %.50.i = tail call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %arg.start.5.0, i64 13)
  %.51.i = extractvalue { i64, i1 } %.50.i, 0
  %.52.i = extractvalue { i64, i1 } %.50.i, 1
  %.54.i = shl nuw i64 %arg.start.5.0, 3
  %16 = add i64 %.51.i, -1152921504606846976
  %.57.i = icmp ult i64 %16, -2305843009213693952
  %.58.i = or i1 %.52.i, %.57.i
  br i1 %.58.i, label %B0.endif.endif.if.if, label %B0.endif.endif.endif.endif.endif.i, !prof !0

B0.endif.endif.endif.endif.endif.i:               ; preds = %B0.endif.endif.endif.endif.i
  %.56.i = shl nsw i64 %.51.i, 3
  %.7.i.i.i = tail call ptr @NRT_MemInfo_alloc_aligned(i64 %.56.i, i32 32), !noalias !158
  %.8.i.i.i = icmp eq ptr %.7.i.i.i, null
  br i1 %.8.i.i.i, label %B0.endif.endif.if.if, label %B0.endif.endif.endif.endif, !prof !0

B0.endif.if.if:                                   ; preds = %B0.endif.endif.endif.i.i208, %B0.endif.endif.i.i
  %excinfo.2.0.ph = phi ptr [ @.const.picklebuf.58e14eccb507b1e0206981740223e685cb8c3c57, %B0.endif.endif.i.i ], [ @.const.picklebuf.ba289d81f05c7020f3477c15734804df65abe209.11, %B0.endif.endif.endif.i.i208 ]
  store ptr %excinfo.2.0.ph, ptr %excinfo, align 8
  br label %common.ret

B0.endif.endif.if.if:                             ; preds = %B0.endif.endif.endif.endif.i, %B0.endif.endif.endif.endif.endif.i
  %excinfo.3.0.ph = phi ptr [ @.const.picklebuf.ba289d81f05c7020f3477c15734804df65abe209.21, %B0.endif.endif.endif.endif.endif.i ], [ @.const.picklebuf.58e14eccb507b1e0206981740223e685cb8c3c57.20, %B0.endif.endif.endif.endif.i ]
  store ptr %excinfo.3.0.ph, ptr %excinfo, align 8
  br label %common.ret

B0.endif.endif.endif.endif:                       ; preds = %B0.endif.endif.endif.endif.endif.i
  %.5.i.i = getelementptr i8, ptr %.7.i.i.i, i64 24
  %.6.i.i = load ptr, ptr %.5.i.i, align 8, !noalias !168
  %.275727.not = icmp eq i64 %arg.start.5.0, 0
  br i1 %.275727.not, label %B1212, label %B268.lr.ph

B268.lr.ph:                                       ; preds = %B0.endif.endif.endif.endif
  %const = bitcast i64 2155905152 to i64
  %.idx = mul i64 %arg.start.5.0, 88
  %17 = getelementptr i8, ptr %.6.i.i, i64 %.idx
  %.idx692 = mul i64 %arg.start.5.0, 96
  %18 = getelementptr i8, ptr %.6.i.i, i64 %.idx692
  %19 = getelementptr i64, ptr %.6.i.i, i64 %arg.start.5.0
  %.idx.i = shl nuw i64 %arg.start.5.0, 4
  %20 = getelementptr i8, ptr %.6.i.i, i64 %.idx.i
  %.idx1186.i = mul nuw i64 %arg.start.5.0, 24
  %21 = getelementptr i8, ptr %.6.i.i, i64 %.idx1186.i
  %.idx1187.i = shl i64 %arg.start.5.0, 5
  %22 = getelementptr i8, ptr %.6.i.i, i64 %.idx1187.i
  %.idx1188.i = mul i64 %arg.start.5.0, 40
  %23 = getelementptr i8, ptr %.6.i.i, i64 %.idx1188.i
  %.idx1189.i = mul i64 %arg.start.5.0, 48
  %24 = getelementptr i8, ptr %.6.i.i, i64 %.idx1189.i
  %.idx1190.i = mul i64 %arg.start.5.0, 56
  %25 = getelementptr i8, ptr %.6.i.i, i64 %.idx1190.i
  %.idx1191.i = shl i64 %arg.start.5.0, 6
  %26 = getelementptr i8, ptr %.6.i.i, i64 %.idx1191.i
  %.idx1192.i = mul i64 %arg.start.5.0, 72
  %27 = getelementptr i8, ptr %.6.i.i, i64 %.idx1192.i
  %.idx1193.i = mul i64 %arg.start.5.0, 80
  %28 = getelementptr i8, ptr %.6.i.i, i64 %.idx1193.i
  br label %B268

B456.endif:                                       ; preds = %B268
  %.41.i = getelementptr i8, ptr %arg.octets.4, i64 %.343
  %.42.i = load i8, ptr %.41.i, align 1, !noalias !169
  %.555 = icmp eq i8 %.42.i, 14
  br i1 %.555, label %B496.endif, label %B962.endif

B496.endif:                                       ; preds = %B456.endif
  %sunkaddr419 = getelementptr i8, ptr %arg.octets.4, i64 %.343
  %sunkaddr420 = getelementptr i8, ptr %sunkaddr419, i64 1
  %.42.i2 = load i8, ptr %sunkaddr420, align 1, !noalias !172
  %.604 = icmp eq i8 %.42.i2, 2
  br i1 %.604, label %B542.endif.endif, label %B822.endif

B542.endif.endif:                                 ; preds = %B496.endif
  %sunkaddr421 = getelementptr i8, ptr %arg.octets.4, i64 %.343
  %sunkaddr422 = getelementptr i8, ptr %sunkaddr421, i64 2
  %.42.i.i = load i8, ptr %sunkaddr422, align 1, !noalias !175
  %.46.i.i = zext i8 %.42.i.i to i64
  %sunkaddr423 = getelementptr i8, ptr %arg.octets.4, i64 %.343
  %sunkaddr424 = getelementptr i8, ptr %sunkaddr423, i64 3
  %.42.i2.i = load i8, ptr %sunkaddr424, align 1, !noalias !180
  %.46.i3.i = zext i8 %.42.i2.i to i64
  %sunkaddr425 = getelementptr i8, ptr %arg.octets.4, i64 %.343
  %sunkaddr426 = getelementptr i8, ptr %sunkaddr425, i64 4
  %.42.i5.i = load i8, ptr %sunkaddr426, align 1, !noalias !183
  %.46.i6.i = zext i8 %.42.i5.i to i64
  %sunkaddr427 = getelementptr i8, ptr %arg.octets.4, i64 %.343
  %sunkaddr428 = getelementptr i8, ptr %sunkaddr427, i64 5
  %.42.i8.i = load i8, ptr %sunkaddr428, align 1, !noalias !186
  %.46.i9.i = zext i8 %.42.i8.i to i64
  %.45.i = shl nuw nsw i64 %.46.i.i, 24
  %.73.i = shl nuw nsw i64 %.46.i3.i, 16
  %.74.i = or disjoint i64 %.73.i, %.45.i
  %.102.i = shl nuw nsw i64 %.46.i6.i, 8
  %.103.i = or disjoint i64 %.74.i, %.102.i
  %.134.i = or disjoint i64 %.103.i, %.46.i9.i
  %sext.i = shl nuw i64 %.134.i, 32
  %.7.i = ashr exact i64 %sext.i, 32
  %.671 = add nsw i64 %.343, 6
  %.678 = icmp slt i64 %.7.i, 0
  %.682 = sub nsw i64 %.371, %.671
  %.684 = icmp sgt i64 %.7.i, %.682
  %or.cond = select i1 %.678, i1 true, i1 %.684
  br i1 %or.cond, label %B1213, label %B648

B648.endif.thread:                                ; preds = %B268.i, %B178.i, %B110.endif.i, %B416.i, %B156.i.i32.i, %B156.i.i.i
  tail call void @NRT_decref(ptr %arg.octets.0), !noalias !14
  br label %B1213

B782.endif:                                       ; preds = %B720
  %.41.i4.phi.trans.insert = getelementptr i8, ptr %arg.octets.4, i64 %.697
  %.42.i5.pre = load i8, ptr %.41.i4.phi.trans.insert, align 1, !noalias !189
  %.866 = icmp eq i8 %.42.i5.pre, 14
  br i1 %.866, label %B822.endif, label %B962.endif

B822.endif:                                       ; preds = %B496.endif, %B782.endif
  %at.5.1753324 = phi i64 [ %.697, %B782.endif ], [ %.343, %B496.endif ]
  %flags.3.1754323 = phi i64 [ %flags.5.1.sink.i283, %B782.endif ], [ 0, %B496.endif ]
  %timestamp.2.1756322 = phi i64 [ %timestamp.4.1.sink.i284, %B782.endif ], [ 0, %B496.endif ]
  %index.2.1758321 = phi i64 [ %index.4.1.sink.i285, %B782.endif ], [ 0, %B496.endif ]
  %.41.i4325 = getelementptr i8, ptr %arg.octets.4, i64 %at.5.1753324
  %.41.i7 = getelementptr i8, ptr %.41.i4325, i64 1
  %.42.i8 = load i8, ptr %.41.i7, align 1, !noalias !192
  %.913 = icmp eq i8 %.42.i8, 1
  br i1 %.913, label %B868.endif, label %B962.endif

B868.endif:                                       ; preds = %B822.endif
  %sunkaddr429 = getelementptr i8, ptr %arg.octets.4, i64 %at.5.1753324
  %sunkaddr430 = getelementptr i8, ptr %sunkaddr429, i64 2
  %.42.i.i11 = load i8, ptr %sunkaddr430, align 1, !noalias !195
  %.46.i.i12 = zext i8 %.42.i.i11 to i64
  %sunkaddr431 = getelementptr i8, ptr %arg.octets.4, i64 %at.5.1753324
  %sunkaddr432 = getelementptr i8, ptr %sunkaddr431, i64 3
  %.42.i2.i14 = load i8, ptr %sunkaddr432, align 1, !noalias !200
  %.46.i3.i15 = zext i8 %.42.i2.i14 to i64
  %sunkaddr433 = getelementptr i8, ptr %arg.octets.4, i64 %at.5.1753324
  %sunkaddr434 = getelementptr i8, ptr %sunkaddr433, i64 4
  %.42.i5.i17 = load i8, ptr %sunkaddr434, align 1, !noalias !203
  %.46.i6.i18 = zext i8 %.42.i5.i17 to i64
  %sunkaddr435 = getelementptr i8, ptr %arg.octets.4, i64 %at.5.1753324
  %sunkaddr436 = getelementptr i8, ptr %sunkaddr435, i64 5
  %.42.i8.i20 = load i8, ptr %sunkaddr436, align 1, !noalias !206
  %.46.i9.i21 = zext i8 %.42.i8.i20 to i64
  %.45.i22 = shl nuw nsw i64 %.46.i.i12, 24
  %.73.i23 = shl nuw nsw i64 %.46.i3.i15, 16
  %.74.i24 = or disjoint i64 %.73.i23, %.45.i22
  %.102.i25 = shl nuw nsw i64 %.46.i6.i18, 8
  %.103.i26 = or disjoint i64 %.74.i24, %.102.i25
  %.134.i27 = or disjoint i64 %.103.i26, %.46.i9.i21
  %.947 = add nsw i64 %at.5.1753324, 6
  %.955 = or i64 %flags.3.1754323, 8
  %.pre = sub nsw i64 %.371, %.947
  br label %B940

B962.endif:                                       ; preds = %B456.endif, %B940.B962.endif_crit_edge, %B822.endif, %B782.endif
  %.42.i.i29 = phi i8 [ %.42.i.i29.pre, %B940.B962.endif_crit_edge ], [ 14, %B822.endif ], [ %.42.i5.pre, %B782.endif ], [ %.42.i, %B456.endif ]
  %checked_start.2.2779 = phi i64 [ %checked_start.2.2, %B940.B962.endif_crit_edge ], [ %.371, %B822.endif ], [ %.371, %B782.endif ], [ %.371, %B456.endif ]
  %crc.2.2778 = phi i64 [ %crc.2.2, %B940.B962.endif_crit_edge ], [ -1, %B822.endif ], [ -1, %B782.endif ], [ -1, %B456.endif ]
  %flags.4.2777 = phi i64 [ %flags.4.2, %B940.B962.endif_crit_edge ], [ %flags.3.1754323, %B822.endif ], [ %flags.5.1.sink.i283, %B782.endif ], [ 0, %B456.endif ]
  %at.6.2776 = phi i64 [ %at.6.2, %B940.B962.endif_crit_edge ], [ %at.5.1753324, %B822.endif ], [ %.697, %B782.endif ], [ %.343, %B456.endif ]
  %timestamp.2.1755775 = phi i64 [ %timestamp.2.1755, %B940.B962.endif_crit_edge ], [ %timestamp.2.1756322, %B822.endif ], [ %timestamp.4.1.sink.i284, %B782.endif ], [ 0, %B456.endif ]
  %index.2.1757774 = phi i64 [ %index.2.1757, %B940.B962.endif_crit_edge ], [ %index.2.1758321, %B822.endif ], [ %index.4.1.sink.i285, %B782.endif ], [ 0, %B456.endif ]
  %.41.i.i28 = getelementptr i8, ptr %arg.octets.4, i64 %at.6.2776
  %.46.i.i30 = zext i8 %.42.i.i29 to i64
  %.41.i1.i31 = getelementptr i8, ptr %.41.i.i28, i64 1
  %.42.i2.i32 = load i8, ptr %.41.i1.i31, align 1, !noalias !209
  %.46.i3.i33 = zext i8 %.42.i2.i32 to i64
  %.41.i4.i34 = getelementptr i8, ptr %.41.i.i28, i64 2
  %.42.i5.i35 = load i8, ptr %.41.i4.i34, align 1, !noalias !212
  %.46.i6.i36 = zext i8 %.42.i5.i35 to i64
  %.41.i7.i37 = getelementptr i8, ptr %.41.i.i28, i64 3
  %.42.i8.i38 = load i8, ptr %.41.i7.i37, align 1, !noalias !215
  %.46.i9.i39 = zext i8 %.42.i8.i38 to i64
  %.45.i40 = shl nuw nsw i64 %.46.i.i30, 24
  %.73.i41 = shl nuw nsw i64 %.46.i3.i33, 16
  %.74.i42 = or disjoint i64 %.73.i41, %.45.i40
  %.102.i43 = shl nuw nsw i64 %.46.i6.i36, 8
  %.103.i44 = or disjoint i64 %.74.i42, %.102.i43
  %.134.i45 = or disjoint i64 %.103.i44, %.46.i9.i39
  %.1023 = add nsw i64 %at.6.2776, 4
  %.1031 = sub nsw i64 %.371, %.1023
  %.1035 = icmp sgt i64 %.134.i45, %.1031
  br i1 %.1035, label %B1213, label %B1026

B1026.endif:                                      ; preds = %B1390.i
  %.1825.i = and i64 %flags.10.11173.i, 1610612736
  %.1826.i = icmp eq i64 %.1825.i, 1610612736
  %.1841.i = or i64 %flags.10.11173.i, 64
  %txn_most.3.0.i = select i1 %.1826.i, i64 %txn_most.5.11168.i, i64 0
  %txn_least.3.0.i = select i1 %.1826.i, i64 %txn_least.5.11169.i, i64 0
  %flags.13.0.i = select i1 %.1826.i, i64 %.1841.i, i64 %flags.10.11173.i
  %.1913.i = getelementptr i64, ptr %20, i64 %.281717728
  store i64 %publish_time.3.11165.i, ptr %.1913.i, align 8, !noalias !63
  %.1968.i = getelementptr i64, ptr %21, i64 %.281717728
  store i64 %deliver_at.3.11166.i, ptr %.1968.i, align 8, !noalias !63
  %.2023.i = getelementptr i64, ptr %22, i64 %.281717728
  store i64 %num_messages.3.11172.i, ptr %.2023.i, align 8, !noalias !63
  %.2078.i = getelementptr i64, ptr %23, i64 %.281717728
  store i64 %marker_type.3.11167.i, ptr %.2078.i, align 8, !noalias !63
  %.2133.i = getelementptr i64, ptr %24, i64 %.281717728
  store i64 %txn_most.3.0.i, ptr %.2133.i, align 8, !noalias !63
  %.2188.i = getelementptr i64, ptr %25, i64 %.281717728
  store i64 %txn_least.3.0.i, ptr %.2188.i, align 8, !noalias !63
  %.2243.i = getelementptr i64, ptr %26, i64 %.281717728
  store i64 %compression.3.11170.i, ptr %.2243.i, align 8, !noalias !63
  %.2298.i = getelementptr i64, ptr %27, i64 %.281717728
  store i64 %uncompressed_size.3.11171.i, ptr %.2298.i, align 8, !noalias !63
  %.2355.i = getelementptr i64, ptr %28, i64 %.281717728
  store i64 %.1056, ptr %.2355.i, align 8, !noalias !63
  tail call void @NRT_decref(ptr nonnull %.7.i.i.i), !noalias !63
  %.1099 = icmp slt i64 %flags.13.0.i, 0
  br i1 %.1099, label %B1213, label %B1086
}

; Function Attrs: mustprogress nocallback nofree nounwind willreturn memory(argmem: write)
declare void @llvm.memset.p0.i64(ptr writeonly captures(none), i8, i64, i1 immarg) #0

define ptr @_ZN7cpython8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE(ptr readnone captures(none) %py_closure, ptr %py_args, ptr readnone captures(none) %py_kws) local_unnamed_addr {
entry:
  %.5 = alloca ptr, align 8
  %.6 = alloca ptr, align 8
  %.7 = alloca ptr, align 8
  %.8 = call i32 (ptr, ptr, i64, i64, ...) @PyArg_UnpackTuple(ptr %py_args, ptr nonnull @.const.scan_frames, i64 3, i64 3, ptr nonnull %.5, ptr nonnull %.6, ptr nonnull %.7)
  %.9 = icmp eq i32 %.8, 0
  %.21 = alloca { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, align 8
  %.44 = alloca { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, align 8
  %.67 = alloca { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, align 8
  %.90 = alloca { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } }, align 8
  %excinfo = alloca ptr, align 8
  store ptr null, ptr %excinfo, align 8
  %.191 = alloca { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, align 8
  %.225 = alloca { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(56) %.191, i8 0, i64 56, i1 false)
  %.259 = alloca { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] }, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(56) %.225, i8 0, i64 56, i1 false)
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(72) %.259, i8 0, i64 72, i1 false)
  br i1 %.9, label %common.ret, label %entry.endif, !prof !0

common.ret:                                       ; preds = %entry.endif.endif.endif.thread, %entry.endif.endif.endif.e...endif.if.endif.if, %entry.endif.endif.endif.e...endif.if.endif, %arg0.err, %entry, %entry.endif.endif.endif.e...endif.if.if.if, %entry.endif.endif.endif.e...if.endif.endif.endif.endif, %entry.endif.if
  %common.ret.op = phi ptr [ null, %entry.endif.endif.endif.e...endif.if.if.if ], [ null, %entry ], [ null, %entry.endif.if ], [ null, %entry.endif.endif.endif.e...endif.if.endif ], [ %.165, %entry.endif.endif.endif.e...if.endif.endif.endif.endif ], [ null, %arg0.err ], [ null, %entry.endif.endif.endif.thread ], [ null, %entry.endif.endif.endif.e...endif.if.endif.if ]
  ret ptr %common.ret.op

entry.endif:                                      ; preds = %entry
  %.13 = load ptr, ptr @_ZN08NumbaEnv8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE, align 8
  %.16 = icmp eq ptr %.13, null
  br i1 %.16, label %entry.endif.if, label %entry.endif.endif, !prof !0

entry.endif.if:                                   ; preds = %entry.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_RuntimeError, ptr nonnull @".const.missing Environment: _ZN08NumbaEnv8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE")
  br label %common.ret

entry.endif.endif:                                ; preds = %entry.endif
  %.20 = load ptr, ptr %.5, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(56) %.21, i8 0, i64 56, i1 false)
  %.25 = call i32 @NRT_adapt_ndarray_from_python(ptr %.20, ptr nonnull %.21)
  %sunkaddr = getelementptr inbounds i8, ptr %.21, i64 24
  %.29 = load i64, ptr %sunkaddr, align 8
  %.30 = icmp ne i64 %.29, 1
  %.31 = icmp ne i32 %.25, 0
  %.32 = or i1 %.31, %.30
  br i1 %.32, label %entry.endif.endif.endif.thread, label %entry.endif.endif.endif.endif, !prof !0

entry.endif.endif.endif.thread:                   ; preds = %entry.endif.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_TypeError, ptr nonnull @".const.can't unbox array from PyObject into native value.  The object maybe of a different type")
  br label %common.ret

entry.endif.endif.endif.endif:                    ; preds = %entry.endif.endif
  %.36.fca.0.load = load ptr, ptr %.21, align 8
  %sunkaddr1 = getelementptr inbounds i8, ptr %.21, i64 32
  %.36.fca.4.load = load ptr, ptr %sunkaddr1, align 8
  %.43 = load ptr, ptr %.6, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(56) %.44, i8 0, i64 56, i1 false)
  %.48 = call i32 @NRT_adapt_ndarray_from_python(ptr %.43, ptr nonnull %.44)
  %sunkaddr2 = getelementptr inbounds i8, ptr %.44, i64 24
  %.52 = load i64, ptr %sunkaddr2, align 8
  %.53 = icmp ne i64 %.52, 8
  %.54 = icmp ne i32 %.48, 0
  %.55 = or i1 %.54, %.53
  br i1 %.55, label %entry.endif.endif.endif.endif.endif.thread, label %entry.endif.endif.endif.endif.endif.endif, !prof !0

arg0.err:                                         ; preds = %entry.endif.endif.endif.endif.endif.thread, %entry.endif.endif.endif.endif.endif.endif.if
  call void @NRT_decref(ptr %.36.fca.0.load)
  br label %common.ret

entry.endif.endif.endif.endif.endif.thread:       ; preds = %entry.endif.endif.endif.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_TypeError, ptr nonnull @".const.can't unbox array from PyObject into native value.  The object maybe of a different type")
  br label %arg0.err

entry.endif.endif.endif.endif.endif.endif:        ; preds = %entry.endif.endif.endif.endif
  %.59.fca.0.load = load ptr, ptr %.44, align 8
  %sunkaddr3 = getelementptr inbounds i8, ptr %.44, i64 32
  %.59.fca.4.load = load ptr, ptr %sunkaddr3, align 8
  %sunkaddr4 = getelementptr inbounds i8, ptr %.44, i64 40
  %.59.fca.5.0.load = load i64, ptr %sunkaddr4, align 8
  %.66 = load ptr, ptr %.7, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(56) %.67, i8 0, i64 56, i1 false)
  %.71 = call i32 @NRT_adapt_ndarray_from_python(ptr %.66, ptr nonnull %.67)
  %sunkaddr5 = getelementptr inbounds i8, ptr %.67, i64 24
  %.75 = load i64, ptr %sunkaddr5, align 8
  %.76 = icmp ne i64 %.75, 8
  %.77 = icmp ne i32 %.71, 0
  %.78 = or i1 %.77, %.76
  br i1 %.78, label %entry.endif.endif.endif.endif.endif.endif.if, label %entry.endif.endif.endif.endif.endif.endif.endif.endif, !prof !0

entry.endif.endif.endif.endif.endif.endif.if:     ; preds = %entry.endif.endif.endif.endif.endif.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_TypeError, ptr nonnull @".const.can't unbox array from PyObject into native value.  The object maybe of a different type")
  call void @NRT_decref(ptr %.59.fca.0.load)
  br label %arg0.err

entry.endif.endif.endif.endif.endif.endif.endif.endif: ; preds = %entry.endif.endif.endif.endif.endif.endif
  %.82.fca.0.load = load ptr, ptr %.67, align 8
  %sunkaddr6 = getelementptr inbounds i8, ptr %.67, i64 32
  %.82.fca.4.load = load ptr, ptr %sunkaddr6, align 8
  %.89 = call ptr @PyEval_SaveThread()
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(184) %.90, i8 0, i64 184, i1 false)
  %.100 = call i32 @_ZN8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE(ptr nonnull %.90, ptr nonnull %excinfo, ptr %.36.fca.0.load, ptr poison, i64 poison, i64 poison, ptr %.36.fca.4.load, i64 poison, i64 poison, ptr %.59.fca.0.load, ptr poison, i64 poison, i64 poison, ptr %.59.fca.4.load, i64 %.59.fca.5.0.load, i64 poison, ptr %.82.fca.0.load, ptr poison, i64 poison, i64 poison, ptr %.82.fca.4.load, i64 poison, i64 poison) #2
  %.101 = load ptr, ptr %excinfo, align 8
  %.110.fca.0.0.load = load ptr, ptr %.90, align 8
  %sunkaddr7 = getelementptr inbounds i8, ptr %.90, i64 8
  %.110.fca.0.1.load = load ptr, ptr %sunkaddr7, align 8
  %sunkaddr8 = getelementptr inbounds i8, ptr %.90, i64 16
  %.110.fca.0.2.load = load i64, ptr %sunkaddr8, align 8
  %sunkaddr9 = getelementptr inbounds i8, ptr %.90, i64 24
  %.110.fca.0.3.load = load i64, ptr %sunkaddr9, align 8
  %sunkaddr10 = getelementptr inbounds i8, ptr %.90, i64 32
  %.110.fca.0.4.load = load ptr, ptr %sunkaddr10, align 8
  %sunkaddr11 = getelementptr inbounds i8, ptr %.90, i64 40
  %.110.fca.0.5.0.load = load i64, ptr %sunkaddr11, align 8
  %sunkaddr12 = getelementptr inbounds i8, ptr %.90, i64 48
  %.110.fca.0.6.0.load = load i64, ptr %sunkaddr12, align 8
  %sunkaddr13 = getelementptr inbounds i8, ptr %.90, i64 56
  %.110.fca.1.0.load = load ptr, ptr %sunkaddr13, align 8
  %sunkaddr14 = getelementptr inbounds i8, ptr %.90, i64 64
  %.110.fca.1.1.load = load ptr, ptr %sunkaddr14, align 8
  %sunkaddr15 = getelementptr inbounds i8, ptr %.90, i64 72
  %.110.fca.1.2.load = load i64, ptr %sunkaddr15, align 8
  %sunkaddr16 = getelementptr inbounds i8, ptr %.90, i64 80
  %.110.fca.1.3.load = load i64, ptr %sunkaddr16, align 8
  %sunkaddr17 = getelementptr inbounds i8, ptr %.90, i64 88
  %.110.fca.1.4.load = load ptr, ptr %sunkaddr17, align 8
  %sunkaddr18 = getelementptr inbounds i8, ptr %.90, i64 96
  %.110.fca.1.5.0.load = load i64, ptr %sunkaddr18, align 8
  %sunkaddr19 = getelementptr inbounds i8, ptr %.90, i64 104
  %.110.fca.1.6.0.load = load i64, ptr %sunkaddr19, align 8
  %sunkaddr20 = getelementptr inbounds i8, ptr %.90, i64 112
  %.110.fca.2.0.load = load ptr, ptr %sunkaddr20, align 8
  %sunkaddr21 = getelementptr inbounds i8, ptr %.90, i64 120
  %.110.fca.2.1.load = load ptr, ptr %sunkaddr21, align 8
  %sunkaddr22 = getelementptr inbounds i8, ptr %.90, i64 128
  %.110.fca.2.2.load = load i64, ptr %sunkaddr22, align 8
  %sunkaddr23 = getelementptr inbounds i8, ptr %.90, i64 136
  %.110.fca.2.3.load = load i64, ptr %sunkaddr23, align 8
  %sunkaddr24 = getelementptr inbounds i8, ptr %.90, i64 144
  %.110.fca.2.4.load = load ptr, ptr %sunkaddr24, align 8
  %sunkaddr25 = getelementptr inbounds i8, ptr %.90, i64 152
  %.110.fca.2.5.0.load = load i64, ptr %sunkaddr25, align 8
  %sunkaddr26 = getelementptr inbounds i8, ptr %.90, i64 160
  %.110.fca.2.5.1.load = load i64, ptr %sunkaddr26, align 8
  %sunkaddr27 = getelementptr inbounds i8, ptr %.90, i64 168
  %.110.fca.2.6.0.load = load i64, ptr %sunkaddr27, align 8
  %sunkaddr28 = getelementptr inbounds i8, ptr %.90, i64 176
  %.110.fca.2.6.1.load = load i64, ptr %sunkaddr28, align 8
  call void @PyEval_RestoreThread(ptr %.89)
  call void @NRT_decref(ptr %.36.fca.0.load)
  call void @NRT_decref(ptr %.59.fca.0.load)
  call void @NRT_decref(ptr %.82.fca.0.load)
  %cond = icmp eq i32 %.100, 0
  br i1 %cond, label %entry.endif.endif.endif.e...if.endif, label %entry.endif.endif.endif.e...endif.if, !prof !218

entry.endif.endif.endif.e...if.endif:             ; preds = %entry.endif.endif.endif.endif.endif.endif.endif.endif
  %.165 = call ptr @PyTuple_New(i64 3)
  %.171 = getelementptr i8, ptr %.13, i64 24
  %.172 = load ptr, ptr %.171, align 8
  %.176.not = icmp eq ptr %.172, null
  br i1 %.176.not, label %entry.endif.endif.endif.e...if.endif.else, label %entry.endif.endif.endif.e...if.endif.if

entry.endif.endif.endif.e...if.endif.if:          ; preds = %entry.endif.endif.endif.e...if.endif
  %.178 = call ptr @PyList_GetItem(ptr nonnull %.172, i64 0)
  br label %entry.endif.endif.endif.e...if.endif.endif

entry.endif.endif.endif.e...if.endif.else:        ; preds = %entry.endif.endif.endif.e...if.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_RuntimeError, ptr nonnull @".const.`env.consts` is NULL in `read_const`")
  br label %entry.endif.endif.endif.e...if.endif.endif

entry.endif.endif.endif.e...if.endif.endif:       ; preds = %entry.endif.endif.endif.e...if.endif.else, %entry.endif.endif.endif.e...if.endif.if
  %.173.0 = phi ptr [ %.178, %entry.endif.endif.endif.e...if.endif.if ], [ null, %entry.endif.endif.endif.e...if.endif.else ]
  %.190 = call ptr @numba_unpickle(ptr nonnull @.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3, i32 32, ptr nonnull @.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3.sha1)
  store ptr %.110.fca.0.0.load, ptr %.191, align 8
  %sunkaddr29 = getelementptr inbounds i8, ptr %.191, i64 8
  store ptr %.110.fca.0.1.load, ptr %sunkaddr29, align 8
  %sunkaddr30 = getelementptr inbounds i8, ptr %.191, i64 16
  store i64 %.110.fca.0.2.load, ptr %sunkaddr30, align 8
  %sunkaddr31 = getelementptr inbounds i8, ptr %.191, i64 24
  store i64 %.110.fca.0.3.load, ptr %sunkaddr31, align 8
  %sunkaddr32 = getelementptr inbounds i8, ptr %.191, i64 32
  store ptr %.110.fca.0.4.load, ptr %sunkaddr32, align 8
  %sunkaddr33 = getelementptr inbounds i8, ptr %.191, i64 40
  store i64 %.110.fca.0.5.0.load, ptr %sunkaddr33, align 8
  %sunkaddr34 = getelementptr inbounds i8, ptr %.191, i64 48
  store i64 %.110.fca.0.6.0.load, ptr %sunkaddr34, align 8
  %.195 = call ptr @NRT_adapt_ndarray_to_python_acqref(ptr nonnull %.191, ptr %.190, i32 1, i32 1, ptr %.173.0)
  call void @NRT_decref(ptr %.110.fca.0.0.load)
  %.199 = call i32 @PyTuple_SetItem(ptr %.165, i64 0, ptr %.195)
  %sunkaddr35 = getelementptr i8, ptr %.13, i64 24
  %.206 = load ptr, ptr %sunkaddr35, align 8
  %.210.not = icmp eq ptr %.206, null
  br i1 %.210.not, label %entry.endif.endif.endif.e...if.endif.endif.else, label %entry.endif.endif.endif.e...if.endif.endif.if

entry.endif.endif.endif.e...if.endif.endif.if:    ; preds = %entry.endif.endif.endif.e...if.endif.endif
  %.212 = call ptr @PyList_GetItem(ptr nonnull %.206, i64 1)
  br label %entry.endif.endif.endif.e...if.endif.endif.endif

entry.endif.endif.endif.e...if.endif.endif.else:  ; preds = %entry.endif.endif.endif.e...if.endif.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_RuntimeError, ptr nonnull @".const.`env.consts` is NULL in `read_const`")
  br label %entry.endif.endif.endif.e...if.endif.endif.endif

entry.endif.endif.endif.e...if.endif.endif.endif: ; preds = %entry.endif.endif.endif.e...if.endif.endif.else, %entry.endif.endif.endif.e...if.endif.endif.if
  %.207.0 = phi ptr [ %.212, %entry.endif.endif.endif.e...if.endif.endif.if ], [ null, %entry.endif.endif.endif.e...if.endif.endif.else ]
  %.224 = call ptr @numba_unpickle(ptr nonnull @.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3, i32 32, ptr nonnull @.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3.sha1)
  store ptr %.110.fca.1.0.load, ptr %.225, align 8
  %sunkaddr36 = getelementptr inbounds i8, ptr %.225, i64 8
  store ptr %.110.fca.1.1.load, ptr %sunkaddr36, align 8
  %sunkaddr37 = getelementptr inbounds i8, ptr %.225, i64 16
  store i64 %.110.fca.1.2.load, ptr %sunkaddr37, align 8
  %sunkaddr38 = getelementptr inbounds i8, ptr %.225, i64 24
  store i64 %.110.fca.1.3.load, ptr %sunkaddr38, align 8
  %sunkaddr39 = getelementptr inbounds i8, ptr %.225, i64 32
  store ptr %.110.fca.1.4.load, ptr %sunkaddr39, align 8
  %sunkaddr40 = getelementptr inbounds i8, ptr %.225, i64 40
  store i64 %.110.fca.1.5.0.load, ptr %sunkaddr40, align 8
  %sunkaddr41 = getelementptr inbounds i8, ptr %.225, i64 48
  store i64 %.110.fca.1.6.0.load, ptr %sunkaddr41, align 8
  %.229 = call ptr @NRT_adapt_ndarray_to_python_acqref(ptr nonnull %.225, ptr %.224, i32 1, i32 1, ptr %.207.0)
  call void @NRT_decref(ptr %.110.fca.1.0.load)
  %.233 = call i32 @PyTuple_SetItem(ptr %.165, i64 1, ptr %.229)
  %sunkaddr42 = getelementptr i8, ptr %.13, i64 24
  %.240 = load ptr, ptr %sunkaddr42, align 8
  %.244.not = icmp eq ptr %.240, null
  br i1 %.244.not, label %entry.endif.endif.endif.e...if.endif.endif.endif.else, label %entry.endif.endif.endif.e...if.endif.endif.endif.if

entry.endif.endif.endif.e...if.endif.endif.endif.if: ; preds = %entry.endif.endif.endif.e...if.endif.endif.endif
  %.246 = call ptr @PyList_GetItem(ptr nonnull %.240, i64 2)
  br label %entry.endif.endif.endif.e...if.endif.endif.endif.endif

entry.endif.endif.endif.e...if.endif.endif.endif.else: ; preds = %entry.endif.endif.endif.e...if.endif.endif.endif
  call void @PyErr_SetString(ptr nonnull @PyExc_RuntimeError, ptr nonnull @".const.`env.consts` is NULL in `read_const`")
  br label %entry.endif.endif.endif.e...if.endif.endif.endif.endif

entry.endif.endif.endif.e...if.endif.endif.endif.endif: ; preds = %entry.endif.endif.endif.e...if.endif.endif.endif.else, %entry.endif.endif.endif.e...if.endif.endif.endif.if
  %.241.0 = phi ptr [ %.246, %entry.endif.endif.endif.e...if.endif.endif.endif.if ], [ null, %entry.endif.endif.endif.e...if.endif.endif.endif.else ]
  %.258 = call ptr @numba_unpickle(ptr nonnull @.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3, i32 32, ptr nonnull @.const.pickledata.dfbcfdd39fcb26f4d0c680954487b8c0b53bb8a3.sha1)
  store ptr %.110.fca.2.0.load, ptr %.259, align 8
  %sunkaddr43 = getelementptr inbounds i8, ptr %.259, i64 8
  store ptr %.110.fca.2.1.load, ptr %sunkaddr43, align 8
  %sunkaddr44 = getelementptr inbounds i8, ptr %.259, i64 16
  store i64 %.110.fca.2.2.load, ptr %sunkaddr44, align 8
  %sunkaddr45 = getelementptr inbounds i8, ptr %.259, i64 24
  store i64 %.110.fca.2.3.load, ptr %sunkaddr45, align 8
  %sunkaddr46 = getelementptr inbounds i8, ptr %.259, i64 32
  store ptr %.110.fca.2.4.load, ptr %sunkaddr46, align 8
  %sunkaddr47 = getelementptr inbounds i8, ptr %.259, i64 40
  store i64 %.110.fca.2.5.0.load, ptr %sunkaddr47, align 8
  %sunkaddr48 = getelementptr inbounds i8, ptr %.259, i64 48
  store i64 %.110.fca.2.5.1.load, ptr %sunkaddr48, align 8
  %sunkaddr49 = getelementptr inbounds i8, ptr %.259, i64 56
  store i64 %.110.fca.2.6.0.load, ptr %sunkaddr49, align 8
  %sunkaddr50 = getelementptr inbounds i8, ptr %.259, i64 64
  store i64 %.110.fca.2.6.1.load, ptr %sunkaddr50, align 8
  %.263 = call ptr @NRT_adapt_ndarray_to_python_acqref(ptr nonnull %.259, ptr %.258, i32 2, i32 1, ptr %.241.0)
  call void @NRT_decref(ptr %.110.fca.2.0.load)
  %.269 = call i32 @PyTuple_SetItem(ptr %.165, i64 2, ptr %.263)
  br label %common.ret

entry.endif.endif.endif.e...endif.if:             ; preds = %entry.endif.endif.endif.endif.endif.endif.endif.endif
  call void @PyErr_Clear()
  %.274 = load { ptr, i32, ptr, ptr, i32 }, ptr %.101, align 8
  %.275 = extractvalue { ptr, i32, ptr, ptr, i32 } %.274, 4
  %.276 = icmp sgt i32 %.275, 0
  %.279 = extractvalue { ptr, i32, ptr, ptr, i32 } %.274, 0
  %.281 = extractvalue { ptr, i32, ptr, ptr, i32 } %.274, 1
  br i1 %.276, label %entry.endif.endif.endif.e...endif.if.if, label %entry.endif.endif.endif.e...endif.if.else

entry.endif.endif.endif.e...endif.if.if:          ; preds = %entry.endif.endif.endif.e...endif.if
  %.282 = sext i32 %.281 to i64
  %.283 = call ptr @PyBytes_FromStringAndSize(ptr %.279, i64 %.282)
  %.284 = load { ptr, i32, ptr, ptr, i32 }, ptr %.101, align 8
  %.285 = extractvalue { ptr, i32, ptr, ptr, i32 } %.284, 2
  %.287 = extractvalue { ptr, i32, ptr, ptr, i32 } %.284, 3
  %.289 = call ptr %.287(ptr %.285)
  %.290 = icmp eq ptr %.289, null
  br i1 %.290, label %entry.endif.endif.endif.e...endif.if.if.if, label %entry.endif.endif.endif.e...endif.if.if.endif, !prof !0

entry.endif.endif.endif.e...endif.if.else:        ; preds = %entry.endif.endif.endif.e...endif.if
  %.303 = extractvalue { ptr, i32, ptr, ptr, i32 } %.274, 2
  %.304 = call ptr @numba_unpickle(ptr %.279, i32 %.281, ptr %.303)
  br label %entry.endif.endif.endif.e...endif.if.endif

entry.endif.endif.endif.e...endif.if.endif:       ; preds = %entry.endif.endif.endif.e...endif.if.if.endif, %entry.endif.endif.endif.e...endif.if.else
  %.306 = phi ptr [ %.294, %entry.endif.endif.endif.e...endif.if.if.endif ], [ %.304, %entry.endif.endif.endif.e...endif.if.else ]
  %.307.not = icmp eq ptr %.306, null
  br i1 %.307.not, label %common.ret, label %entry.endif.endif.endif.e...endif.if.endif.if, !prof !0

entry.endif.endif.endif.e...endif.if.if.if:       ; preds = %entry.endif.endif.endif.e...endif.if.if
  call void @PyErr_SetString(ptr nonnull @PyExc_RuntimeError, ptr nonnull @".const.Error creating Python tuple from runtime exception arguments")
  br label %common.ret

entry.endif.endif.endif.e...endif.if.if.endif:    ; preds = %entry.endif.endif.endif.e...endif.if.if
  %.294 = call ptr @numba_runtime_build_excinfo_struct(ptr %.283, ptr nonnull %.289)
  call void @NRT_Free(ptr nonnull %.101)
  br label %entry.endif.endif.endif.e...endif.if.endif

entry.endif.endif.endif.e...endif.if.endif.if:    ; preds = %entry.endif.endif.endif.e...endif.if.endif
  call void @numba_do_raise(ptr nonnull %.306)
  br label %common.ret
}

declare i32 @PyArg_UnpackTuple(ptr, ptr, i64, i64, ...) local_unnamed_addr

declare void @PyErr_SetString(ptr, ptr) local_unnamed_addr

declare i32 @NRT_adapt_ndarray_from_python(ptr captures(none), ptr captures(none)) local_unnamed_addr

declare ptr @PyEval_SaveThread() local_unnamed_addr

declare void @PyEval_RestoreThread(ptr) local_unnamed_addr

declare ptr @PyTuple_New(i64) local_unnamed_addr

declare ptr @PyList_GetItem(ptr, i64) local_unnamed_addr

declare ptr @numba_unpickle(ptr, i32, ptr) local_unnamed_addr

declare ptr @NRT_adapt_ndarray_to_python_acqref(ptr captures(none), ptr, i32, i32, ptr) local_unnamed_addr

declare i32 @PyTuple_SetItem(ptr, i64, ptr) local_unnamed_addr

declare void @PyErr_Clear() local_unnamed_addr

declare ptr @PyBytes_FromStringAndSize(ptr, i64) local_unnamed_addr

declare ptr @numba_runtime_build_excinfo_struct(ptr, ptr) local_unnamed_addr

declare void @NRT_Free(ptr) local_unnamed_addr

declare void @numba_do_raise(ptr) local_unnamed_addr

define { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } } @cfunc._ZN8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE({ ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.1, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.2, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.3) local_unnamed_addr {
entry:
  %.5 = alloca { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } }, align 8
  %.fca.0.1.gep = getelementptr inbounds nuw i8, ptr %.5, i64 8
  %.fca.0.2.gep = getelementptr inbounds nuw i8, ptr %.5, i64 16
  %.fca.0.3.gep = getelementptr inbounds nuw i8, ptr %.5, i64 24
  %.fca.0.4.gep = getelementptr inbounds nuw i8, ptr %.5, i64 32
  %.fca.0.5.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 40
  %.fca.0.6.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 48
  %.fca.1.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 56
  %.fca.1.1.gep = getelementptr inbounds nuw i8, ptr %.5, i64 64
  %.fca.1.2.gep = getelementptr inbounds nuw i8, ptr %.5, i64 72
  %.fca.1.3.gep = getelementptr inbounds nuw i8, ptr %.5, i64 80
  %.fca.1.4.gep = getelementptr inbounds nuw i8, ptr %.5, i64 88
  %.fca.1.5.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 96
  %.fca.1.6.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 104
  %.fca.2.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 112
  %.fca.2.1.gep = getelementptr inbounds nuw i8, ptr %.5, i64 120
  %.fca.2.2.gep = getelementptr inbounds nuw i8, ptr %.5, i64 128
  %.fca.2.3.gep = getelementptr inbounds nuw i8, ptr %.5, i64 136
  %.fca.2.4.gep = getelementptr inbounds nuw i8, ptr %.5, i64 144
  %.fca.2.5.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 152
  %.fca.2.5.1.gep = getelementptr inbounds nuw i8, ptr %.5, i64 160
  %.fca.2.6.0.gep = getelementptr inbounds nuw i8, ptr %.5, i64 168
  %.fca.2.6.1.gep = getelementptr inbounds nuw i8, ptr %.5, i64 176
  %excinfo = alloca ptr, align 8
  call void @llvm.memset.p0.i64(ptr noundef nonnull align 8 dereferenceable(184) %.5, i8 0, i64 184, i1 false)
  store ptr null, ptr %excinfo, align 8
  %extracted.meminfo = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.1, 0
  %extracted.data = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.1, 4
  %extracted.meminfo.1 = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.2, 0
  %extracted.data.1 = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.2, 4
  %extracted.shape.1 = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.2, 5
  %.11 = extractvalue [1 x i64] %extracted.shape.1, 0
  %extracted.meminfo.2 = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.3, 0
  %extracted.data.2 = extractvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %.3, 4
  %.15 = call i32 @_ZN8v_noboth11scan_framesB3v21B40c8tJTIeFIjxB2IKSgI4CrvQClQZ6FcpCShpgEU0AE5ArrayIhLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE5ArrayIxLi1E1C8readonly7alignedE(ptr nonnull %.5, ptr nonnull %excinfo, ptr %extracted.meminfo, ptr poison, i64 poison, i64 poison, ptr %extracted.data, i64 poison, i64 poison, ptr %extracted.meminfo.1, ptr poison, i64 poison, i64 poison, ptr %extracted.data.1, i64 %.11, i64 poison, ptr %extracted.meminfo.2, ptr poison, i64 poison, i64 poison, ptr %extracted.data.2, i64 poison, i64 poison) #2
  %.16 = load ptr, ptr %excinfo, align 8
  %.25.fca.0.0.load = load ptr, ptr %.5, align 8
  %.25.fca.0.1.load = load ptr, ptr %.fca.0.1.gep, align 8
  %.25.fca.0.2.load = load i64, ptr %.fca.0.2.gep, align 8
  %.25.fca.0.3.load = load i64, ptr %.fca.0.3.gep, align 8
  %.25.fca.0.4.load = load ptr, ptr %.fca.0.4.gep, align 8
  %.25.fca.0.5.0.load = load i64, ptr %.fca.0.5.0.gep, align 8
  %.25.fca.0.6.0.load = load i64, ptr %.fca.0.6.0.gep, align 8
  %.25.fca.1.0.load = load ptr, ptr %.fca.1.0.gep, align 8
  %.25.fca.1.1.load = load ptr, ptr %.fca.1.1.gep, align 8
  %.25.fca.1.2.load = load i64, ptr %.fca.1.2.gep, align 8
  %.25.fca.1.3.load = load i64, ptr %.fca.1.3.gep, align 8
  %.25.fca.1.4.load = load ptr, ptr %.fca.1.4.gep, align 8
  %.25.fca.1.5.0.load = load i64, ptr %.fca.1.5.0.gep, align 8
  %.25.fca.1.6.0.load = load i64, ptr %.fca.1.6.0.gep, align 8
  %.25.fca.2.0.load = load ptr, ptr %.fca.2.0.gep, align 8
  %.25.fca.2.1.load = load ptr, ptr %.fca.2.1.gep, align 8
  %.25.fca.2.2.load = load i64, ptr %.fca.2.2.gep, align 8
  %.25.fca.2.3.load = load i64, ptr %.fca.2.3.gep, align 8
  %.25.fca.2.4.load = load ptr, ptr %.fca.2.4.gep, align 8
  %.25.fca.2.5.0.load = load i64, ptr %.fca.2.5.0.gep, align 8
  %.25.fca.2.5.1.load = load i64, ptr %.fca.2.5.1.gep, align 8
  %.25.fca.2.6.0.load = load i64, ptr %.fca.2.6.0.gep, align 8
  %.25.fca.2.6.1.load = load i64, ptr %.fca.2.6.1.gep, align 8
  %inserted.meminfo = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } undef, ptr %.25.fca.0.0.load, 0
  %inserted.parent = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.meminfo, ptr %.25.fca.0.1.load, 1
  %inserted.nitems = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.parent, i64 %.25.fca.0.2.load, 2
  %inserted.itemsize = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.nitems, i64 %.25.fca.0.3.load, 3
  %inserted.data = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.itemsize, ptr %.25.fca.0.4.load, 4
  %.37 = insertvalue [1 x i64] undef, i64 %.25.fca.0.5.0.load, 0
  %inserted.shape = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.data, [1 x i64] %.37, 5
  %.39 = insertvalue [1 x i64] undef, i64 %.25.fca.0.6.0.load, 0
  %inserted.strides = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.shape, [1 x i64] %.39, 6
  %inserted.f0 = insertvalue { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } } undef, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.strides, 0
  %inserted.meminfo.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } undef, ptr %.25.fca.1.0.load, 0
  %inserted.parent.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.meminfo.1, ptr %.25.fca.1.1.load, 1
  %inserted.nitems.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.parent.1, i64 %.25.fca.1.2.load, 2
  %inserted.itemsize.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.nitems.1, i64 %.25.fca.1.3.load, 3
  %inserted.data.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.itemsize.1, ptr %.25.fca.1.4.load, 4
  %.48 = insertvalue [1 x i64] undef, i64 %.25.fca.1.5.0.load, 0
  %inserted.shape.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.data.1, [1 x i64] %.48, 5
  %.50 = insertvalue [1 x i64] undef, i64 %.25.fca.1.6.0.load, 0
  %inserted.strides.1 = insertvalue { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.shape.1, [1 x i64] %.50, 6
  %inserted.f1 = insertvalue { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } } %inserted.f0, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] } %inserted.strides.1, 1
  %inserted.meminfo.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } undef, ptr %.25.fca.2.0.load, 0
  %inserted.parent.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.meminfo.2, ptr %.25.fca.2.1.load, 1
  %inserted.nitems.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.parent.2, i64 %.25.fca.2.2.load, 2
  %inserted.itemsize.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.nitems.2, i64 %.25.fca.2.3.load, 3
  %inserted.data.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.itemsize.2, ptr %.25.fca.2.4.load, 4
  %.59 = insertvalue [2 x i64] undef, i64 %.25.fca.2.5.0.load, 0
  %.61 = insertvalue [2 x i64] %.59, i64 %.25.fca.2.5.1.load, 1
  %inserted.shape.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.data.2, [2 x i64] %.61, 5
  %.63 = insertvalue [2 x i64] undef, i64 %.25.fca.2.6.0.load, 0
  %.65 = insertvalue [2 x i64] %.63, i64 %.25.fca.2.6.1.load, 1
  %inserted.strides.2 = insertvalue { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.shape.2, [2 x i64] %.65, 6
  %inserted.f2 = insertvalue { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } } %inserted.f1, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } %inserted.strides.2, 2
  %.67 = alloca i32, align 4
  store i32 0, ptr %.67, align 4
  %cond = icmp eq i32 %.15, 0
  br i1 %cond, label %common.ret, label %entry.if, !prof !218

entry.if:                                         ; preds = %entry
  call void @numba_gil_ensure(ptr nonnull %.67)
  call void @PyErr_Clear()
  %.73 = load { ptr, i32, ptr, ptr, i32 }, ptr %.16, align 8
  %.74 = extractvalue { ptr, i32, ptr, ptr, i32 } %.73, 4
  %.75 = icmp sgt i32 %.74, 0
  %.78 = extractvalue { ptr, i32, ptr, ptr, i32 } %.73, 0
  %.80 = extractvalue { ptr, i32, ptr, ptr, i32 } %.73, 1
  br i1 %.75, label %entry.if.if.if, label %entry.if.if.else

common.ret:                                       ; preds = %entry, %.70, %entry.if.if.if.if
  %common.ret.op = phi { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } } [ zeroinitializer, %entry.if.if.if.if ], [ %inserted.f2, %.70 ], [ %inserted.f2, %entry ]
  ret { { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [1 x i64], [1 x i64] }, { ptr, ptr, i64, i64, ptr, [2 x i64], [2 x i64] } } %common.ret.op

.70:                                              ; preds = %entry.if.if.endif, %entry.if.if.endif.if
  %.118 = call ptr @PyUnicode_FromString(ptr nonnull @".const.<numba.core.cpu.CPUContext>")
  call void @PyErr_WriteUnraisable(ptr %.118)
  call void @Py_DecRef(ptr %.118)
  call void @numba_gil_release(ptr nonnull %.67)
  br label %common.ret

entry.if.if.if:                                   ; preds = %entry.if
  %.81 = sext i32 %.80 to i64
  %.82 = call ptr @PyBytes_FromStringAndSize(ptr %.78, i64 %.81)
  %.83 = load { ptr, i32, ptr, ptr, i32 }, ptr %.16, align 8
  %.84 = extractvalue { ptr, i32, ptr, ptr, i32 } %.83, 2
  %.86 = extractvalue { ptr, i32, ptr, ptr, i32 } %.83, 3
  %.88 = call ptr %.86(ptr %.84)
  %.89 = icmp eq ptr %.88, null
  br i1 %.89, label %entry.if.if.if.if, label %entry.if.if.if.endif, !prof !0

entry.if.if.else:                                 ; preds = %entry.if
  %.102 = extractvalue { ptr, i32, ptr, ptr, i32 } %.73, 2
  %.103 = call ptr @numba_unpickle(ptr %.78, i32 %.80, ptr %.102)
  br label %entry.if.if.endif

entry.if.if.endif:                                ; preds = %entry.if.if.if.endif, %entry.if.if.else
  %.105 = phi ptr [ %.93, %entry.if.if.if.endif ], [ %.103, %entry.if.if.else ]
  %.106.not = icmp eq ptr %.105, null
  br i1 %.106.not, label %.70, label %entry.if.if.endif.if, !prof !0

entry.if.if.if.if:                                ; preds = %entry.if.if.if
  call void @PyErr_SetString(ptr nonnull @PyExc_RuntimeError, ptr nonnull @".const.Error creating Python tuple from runtime exception arguments.1")
  br label %common.ret

entry.if.if.if.endif:                             ; preds = %entry.if.if.if
  %.93 = call ptr @numba_runtime_build_excinfo_struct(ptr %.82, ptr nonnull %.88)
  call void @NRT_Free(ptr nonnull %.16)
  br label %entry.if.if.endif

entry.if.if.endif.if:                             ; preds = %entry.if.if.endif
  call void @numba_do_raise(ptr nonnull %.105)
  br label %.70
}

declare void @numba_gil_ensure(ptr) local_unnamed_addr

declare ptr @PyUnicode_FromString(ptr) local_unnamed_addr

declare void @PyErr_WriteUnraisable(ptr) local_unnamed_addr

declare void @Py_DecRef(ptr) local_unnamed_addr

declare void @numba_gil_release(ptr) local_unnamed_addr

declare noalias ptr @NRT_MemInfo_alloc_aligned(i64, i32) local_unnamed_addr

; Function Attrs: mustprogress nofree noinline norecurse nounwind willreturn memory(argmem: readwrite)
define linkonce_odr void @NRT_incref(ptr captures(address_is_null) %.1) local_unnamed_addr #1 {
.3:
  %.4 = icmp eq ptr %.1, null
  br i1 %.4, label %common.ret, label %.3.endif, !prof !0

common.ret:                                       ; preds = %.3.endif, %.3
  ret void

.3.endif:                                         ; preds = %.3
  %.4.i = atomicrmw add ptr %.1, i64 1 monotonic, align 8
  br label %common.ret
}

; Function Attrs: noinline
define linkonce_odr void @NRT_decref(ptr %.1) local_unnamed_addr #2 {
.3:
  %.4 = icmp eq ptr %.1, null
  br i1 %.4, label %common.ret, label %.3.endif, !prof !0

common.ret:                                       ; preds = %.3, %.3.endif
  ret void

.3.endif:                                         ; preds = %.3
  fence release
  %0 = tail call i8 @llvm.x86.atomic.sub.cc.i64(ptr nonnull %.1, i64 1, i32 4)
  %1 = trunc i8 %0 to i1
  br i1 %1, label %.3.endif.if, label %common.ret, !prof !0

.3.endif.if:                                      ; preds = %.3.endif
  fence acquire
  tail call void @NRT_MemInfo_call_dtor(ptr nonnull %.1)
  ret void
}

; Function Attrs: nounwind
declare i8 @llvm.x86.atomic.sub.cc.i64(ptr, i64, i32 immarg) #3

declare void @NRT_MemInfo_call_dtor(ptr) local_unnamed_addr

; Function Attrs: mustprogress nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64) #4

attributes #0 = { mustprogress nocallback nofree nounwind willreturn memory(argmem: write) }
attributes #1 = { mustprogress nofree noinline norecurse nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { noinline }
attributes #3 = { nounwind }
attributes #4 = { mustprogress nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }

!0 = !{!"branch_weights", i32 1, i32 99}
!1 = !{!2, !4, !5, !7, !8, !10, !11, !13}
!2 = distinct !{!2, !3, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %retptr"}
!3 = distinct !{!3, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj"}
!4 = distinct !{!4, !3, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %excinfo"}
!5 = distinct !{!5, !6, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %retptr"}
!6 = distinct !{!6, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj"}
!7 = distinct !{!7, !6, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %excinfo"}
!8 = distinct !{!8, !9, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v3B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29: %retptr"}
!9 = distinct !{!9, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v3B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29"}
!10 = distinct !{!10, !9, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v3B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29: %excinfo"}
!11 = distinct !{!11, !12, !"_ZN5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v2B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29: %retptr"}
!12 = distinct !{!12, !"_ZN5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v2B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29"}
!13 = distinct !{!13, !12, !"_ZN5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v2B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx15class_28bool_29: %excinfo"}
!14 = !{!15}
!15 = distinct !{!15, !16, !"_ZN8v_noboth21_scan_broker_metadataB3v27B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!16 = distinct !{!16, !"_ZN8v_noboth21_scan_broker_metadataB3v27B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!17 = !{!18, !15}
!18 = distinct !{!18, !19, !"_ZN8v_noboth4_tagB3v28B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!19 = distinct !{!19, !"_ZN8v_noboth4_tagB3v28B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!20 = !{!21, !18, !15}
!21 = distinct !{!21, !22, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!22 = distinct !{!22, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!23 = !{!24, !18, !15}
!24 = distinct !{!24, !25, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!25 = distinct !{!25, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!26 = !{!27, !29, !31, !15}
!27 = distinct !{!27, !28, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!28 = distinct !{!28, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!29 = distinct !{!29, !30, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!30 = distinct !{!30, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!31 = distinct !{!31, !32, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!32 = distinct !{!32, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!33 = !{!34, !31, !15}
!34 = distinct !{!34, !35, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!35 = distinct !{!35, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!36 = !{!37, !31, !15}
!37 = distinct !{!37, !38, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!38 = distinct !{!38, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!39 = !{!40, !31, !15}
!40 = distinct !{!40, !41, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!41 = distinct !{!41, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!42 = !{!43, !45, !47, !15}
!43 = distinct !{!43, !44, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!44 = distinct !{!44, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!45 = distinct !{!45, !46, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!46 = distinct !{!46, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!47 = distinct !{!47, !48, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!48 = distinct !{!48, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!49 = !{!50, !47, !15}
!50 = distinct !{!50, !51, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!51 = distinct !{!51, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!52 = !{!53, !47, !15}
!53 = distinct !{!53, !54, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!54 = distinct !{!54, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!55 = !{!56, !47, !15}
!56 = distinct !{!56, !57, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!57 = distinct !{!57, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!58 = !{!59, !61}
!59 = distinct !{!59, !60, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!60 = distinct !{!60, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!61 = distinct !{!61, !62, !"_ZN8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!62 = distinct !{!62, !"_ZN8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!63 = !{!64}
!64 = distinct !{!64, !65, !"_ZN8v_noboth22_scan_message_metadataB3v32B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExxy5ArrayIxLi2E1C7mutable7alignedE: %retptr"}
!65 = distinct !{!65, !"_ZN8v_noboth22_scan_message_metadataB3v32B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExxy5ArrayIxLi2E1C7mutable7alignedE"}
!66 = !{!67, !64}
!67 = distinct !{!67, !68, !"_ZN8v_noboth4_tagB3v28B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!68 = distinct !{!68, !"_ZN8v_noboth4_tagB3v28B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!69 = !{!70, !67, !64}
!70 = distinct !{!70, !71, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!71 = distinct !{!71, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!72 = !{!73, !67, !64}
!73 = distinct !{!73, !74, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!74 = distinct !{!74, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!75 = !{!76, !78, !80, !64}
!76 = distinct !{!76, !77, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!77 = distinct !{!77, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!78 = distinct !{!78, !79, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!79 = distinct !{!79, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!80 = distinct !{!80, !81, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!81 = distinct !{!81, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!82 = !{!83, !80, !64}
!83 = distinct !{!83, !84, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!84 = distinct !{!84, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!85 = !{!86, !80, !64}
!86 = distinct !{!86, !87, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!87 = distinct !{!87, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!88 = !{!89, !80, !64}
!89 = distinct !{!89, !90, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!90 = distinct !{!90, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!91 = !{!92, !94, !96, !64}
!92 = distinct !{!92, !93, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!93 = distinct !{!93, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!94 = distinct !{!94, !95, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!95 = distinct !{!95, !"_ZN8v_noboth12_long_varintB3v31B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!96 = distinct !{!96, !97, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!97 = distinct !{!97, !"_ZN8v_noboth7_varintB3v29B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!98 = !{!99, !96, !64}
!99 = distinct !{!99, !100, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!100 = distinct !{!100, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!101 = !{!102, !96, !64}
!102 = distinct !{!102, !103, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!103 = distinct !{!103, !"_ZN8v_noboth10_little_32B3v30B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!104 = !{!105, !96, !64}
!105 = distinct !{!105, !106, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!106 = distinct !{!106, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!107 = !{!108, !64}
!108 = distinct !{!108, !109, !"_ZN8v_noboth18_has_key_and_valueB3v34B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!109 = distinct !{!109, !"_ZN8v_noboth18_has_key_and_valueB3v34B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!110 = !{!111, !108, !64}
!111 = distinct !{!111, !112, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!112 = distinct !{!112, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!113 = !{!114, !108, !64}
!114 = distinct !{!114, !115, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!115 = distinct !{!115, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!116 = !{!117, !108, !64}
!117 = distinct !{!117, !118, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!118 = distinct !{!118, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!119 = !{!120, !108, !64}
!120 = distinct !{!120, !121, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!121 = distinct !{!121, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!122 = !{!123, !64}
!123 = distinct !{!123, !124, !"_ZN8v_noboth18_has_key_and_valueB3v34B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx: %retptr"}
!124 = distinct !{!124, !"_ZN8v_noboth18_has_key_and_valueB3v34B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedExx"}
!125 = !{!126, !123, !64}
!126 = distinct !{!126, !127, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!127 = distinct !{!127, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!128 = !{!129, !123, !64}
!129 = distinct !{!129, !130, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!130 = distinct !{!130, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!131 = !{!132, !123, !64}
!132 = distinct !{!132, !133, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!133 = distinct !{!133, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!134 = !{!135, !123, !64}
!135 = distinct !{!135, !136, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!136 = distinct !{!136, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!137 = !{!8, !10, !11, !13}
!138 = !{!139, !11, !13}
!139 = distinct !{!139, !140, !"_ZN5numba2np8arrayobj18ol_array_zero_fill12_3clocals_3e4implB2v6B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE5ArrayIbLi1E1C7mutable7alignedE: %retptr"}
!140 = distinct !{!140, !"_ZN5numba2np8arrayobj18ol_array_zero_fill12_3clocals_3e4implB2v6B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE5ArrayIbLi1E1C7mutable7alignedE"}
!141 = !{!142, !144, !145, !147, !148, !150, !151, !153}
!142 = distinct !{!142, !143, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %retptr"}
!143 = distinct !{!143, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj"}
!144 = distinct !{!144, !143, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %excinfo"}
!145 = distinct !{!145, !146, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %retptr"}
!146 = distinct !{!146, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj"}
!147 = distinct !{!147, !146, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %excinfo"}
!148 = distinct !{!148, !149, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v8B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29: %retptr"}
!149 = distinct !{!149, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v8B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29"}
!150 = distinct !{!150, !149, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB2v8B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29: %excinfo"}
!151 = distinct !{!151, !152, !"_ZN5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v7B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29: %retptr"}
!152 = distinct !{!152, !"_ZN5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v7B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29"}
!153 = distinct !{!153, !152, !"_ZN5numba2np8arrayobj11ol_np_zeros12_3clocals_3e4implB2v7B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEx17class_28uint32_29: %excinfo"}
!154 = !{!148, !150, !151, !153}
!155 = !{!156, !151, !153}
!156 = distinct !{!156, !157, !"_ZN5numba2np8arrayobj18ol_array_zero_fill12_3clocals_3e4implB2v9B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE5ArrayIjLi1E1C7mutable7alignedE: %retptr"}
!157 = distinct !{!157, !"_ZN5numba2np8arrayobj18ol_array_zero_fill12_3clocals_3e4implB2v9B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE5ArrayIjLi1E1C7mutable7alignedE"}
!158 = !{!159, !161, !162, !164, !165, !167}
!159 = distinct !{!159, !160, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %retptr"}
!160 = distinct !{!160, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj"}
!161 = distinct !{!161, !160, !"_ZN5numba2np8arrayobj18_ol_array_allocate12_3clocals_3e4implB2v5B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %excinfo"}
!162 = distinct !{!162, !163, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %retptr"}
!163 = distinct !{!163, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj"}
!164 = distinct !{!164, !163, !"_ZN5numba2np8arrayobj15_call_allocatorB2v4B42c8tJTC_2fWQA93W1AaAIYBPIqRBFCjDSZRVAJmaQIAEN29typeref_5b_3cclass_20_27numba4core5types8npytypes14Array_27_3e_5dExj: %excinfo"}
!165 = distinct !{!165, !166, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB3v22B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE8UniTupleIxLi2EE16class_28int64_29: %retptr"}
!166 = distinct !{!166, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB3v22B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE8UniTupleIxLi2EE16class_28int64_29"}
!167 = distinct !{!167, !166, !"_ZN5numba2np8arrayobj11ol_np_empty12_3clocals_3e4implB3v22B42c8tJTIeFIjxB2IKSgI4CrvQClcaMQ5hEEUSJJgA_3dE8UniTupleIxLi2EE16class_28int64_29: %excinfo"}
!168 = !{!165, !167}
!169 = !{!170}
!170 = distinct !{!170, !171, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!171 = distinct !{!171, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!172 = !{!173}
!173 = distinct !{!173, !174, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!174 = distinct !{!174, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!175 = !{!176, !178}
!176 = distinct !{!176, !177, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!177 = distinct !{!177, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!178 = distinct !{!178, !179, !"_ZN8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!179 = distinct !{!179, !"_ZN8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!180 = !{!181, !178}
!181 = distinct !{!181, !182, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!182 = distinct !{!182, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!183 = !{!184, !178}
!184 = distinct !{!184, !185, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!185 = distinct !{!185, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!186 = !{!187, !178}
!187 = distinct !{!187, !188, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!188 = distinct !{!188, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!189 = !{!190}
!190 = distinct !{!190, !191, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!191 = distinct !{!191, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!192 = !{!193}
!193 = distinct !{!193, !194, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!194 = distinct !{!194, !"_ZN8v_noboth6_octetB3v23B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!195 = !{!196, !198}
!196 = distinct !{!196, !197, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!197 = distinct !{!197, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!198 = distinct !{!198, !199, !"_ZN8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!199 = distinct !{!199, !"_ZN8v_noboth7_big_32B3v24B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!200 = !{!201, !198}
!201 = distinct !{!201, !202, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!202 = distinct !{!202, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!203 = !{!204, !198}
!204 = distinct !{!204, !205, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!205 = distinct !{!205, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!206 = !{!207, !198}
!207 = distinct !{!207, !208, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!208 = distinct !{!208, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!209 = !{!210, !61}
!210 = distinct !{!210, !211, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!211 = distinct !{!211, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!212 = !{!213, !61}
!213 = distinct !{!213, !214, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!214 = distinct !{!214, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!215 = !{!216, !61}
!216 = distinct !{!216, !217, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx: %retptr"}
!217 = distinct !{!217, !"_ZN8v_noboth6_octetB3v25B44c8tJTIeFIjxB2IKSgI4CrvQClUaKU6gIZqzCJIogmjQBE5ArrayIhLi1E1C8readonly7alignedEx"}
!218 = !{!"branch_weights", i32 49, i32 1}
