// The C interface of the node side: picks the code for the machine at hand.
#include "node_pass.h"

#include "pass.h"

namespace {

// Runs one of two jobs and returns its status.
template <class Call, class Fast, class Portable>
int run(const Call &call, Fast fast, Portable portable) {
    return egt::status_of([&] {
        if (!call.portable && egt_pair_pass_has_avx2())
            fast();
        else
            portable();
        return egt::kDone;
    });
}

}  // namespace

int egt_norm_linear(const EgtNormLinear *call) {
    return run(*call, [&] { egt::avx2::norm_linear(*call); }, [&] { egt::any_machine::norm_linear(*call); });
}

int egt_norm_linear_backward(const EgtNormLinear *call, const EgtNormLinearGradients *gradients) {
    return run(*call, [&] { egt::avx2::norm_linear_backward(*call, *gradients); },
               [&] { egt::any_machine::norm_linear_backward(*call, *gradients); });
}

int egt_node_update(const EgtNodeUpdate *call) {
    return run(*call, [&] { egt::avx2::node_update(*call); }, [&] { egt::any_machine::node_update(*call); });
}

int egt_node_update_backward(const EgtNodeUpdate *call, const EgtNodeUpdateGradients *gradients) {
    return run(*call, [&] { egt::avx2::node_update_backward(*call, *gradients); },
               [&] { egt::any_machine::node_update_backward(*call, *gradients); });
}
