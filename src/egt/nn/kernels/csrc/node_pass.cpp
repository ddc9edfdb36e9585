// The C interface of the node side: picks the code for the machine at hand.
#include "node_pass.h"

#include "pass.h"

int egt_norm_linear(const EgtNormLinear *call) {
    return egt::status_of([&] {
        if (!call->portable && egt_pair_pass_has_avx2())
            egt::avx2::norm_linear(*call);
        else
            egt::any_machine::norm_linear(*call);
        return egt::kDone;
    });
}

int egt_node_update(const EgtNodeUpdate *call) {
    return egt::status_of([&] {
        if (!call->portable && egt_pair_pass_has_avx2())
            egt::avx2::node_update(*call);
        else
            egt::any_machine::node_update(*call);
        return egt::kDone;
    });
}
